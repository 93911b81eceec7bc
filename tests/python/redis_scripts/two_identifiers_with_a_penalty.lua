-- SHA1      645ef869fe4cb95ede3d1750d04b22e4c269a6f9
-- KEYS[1]   ol1:example:user:1
-- KEYS[2]   ol1:example:user:2
-- ARGV[1]   151 bytes, little-endian:
--           now -1, slack_ms 1000, patience 9223372036854775807
--           for ol1:example:user:1: policy at 61, number of limits 1, cost 1, role 0
--           for ol1:example:user:2: policy at 61, number of limits 1, cost 1, role 0
--           sliding_window of 10 per 1 minute: algorithm 2, tag 2d1e272905b80041, then 10, 1200000, 50
--           penalty: levels 2, extend 0, then 60000000, 60000000, 300000000, 300000000
--
-- Decides a call of several charges, or of one that is not enforced, and charges it, all or nothing: everything is
-- checked before anything is written.
-- KEYS      one per charge
-- ARGV[1]   now, slack_ms, patience; per charge where its policy begins, how many limits it has, the cost and the role;
--           the policies
-- returns   'C', now; per charge when its key was created, per limit 12 bytes of its record's head and its state: every charge
--           was written
--           'O', now: a calendar does not reach now, and nothing was written
--           'F', now; per key its value as found, and before each but the last its size: nothing was written
--           'W', now, per key when it was created, or 0 if the charge does not pass; the values as for 'F': something was
--           written, or locked
local unpack, pack, args = struct.unpack, struct.pack, ARGV[1]
local now, slack_ms, patience, next_charge = unpack('<i8i8i8', args)
-- prelude: the names that all fragments share, besides those they list.
-- takes   unpack, pack    of Redis' struct library
--         args            ARGV[1], the arguments of the call
--         now             -1 for the server's clock
-- gives   now, injected   the time of the call in us, and whether it is that of the caller's clock
--         MAX_TIME        times are below it
--         EXACT           integers from 0 to below it are exact in a double; no other number counts
--         HEAD, RECORD, STATE, CELL   bytes of a value's time of creation, a record's head, its state and each of its cells
--         LIMIT           bytes of a limit in args: its algorithm, its tag and six numbers
local injected = now >= 0
if not injected then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local MAX_TIME, EXACT = 2^53 - 2^50, 2^53
local HEAD, RECORD, STATE, CELL, LIMIT = 8, 20, 24, 16, 57
local ENFORCE, SHADOW, ON_REFUSAL = 0, 1, 2
local OK, OVER, LOCKED = 0, 1, 2
local enforced, refusals = OK, OK -- the worst status of the enforced charges, and of the on_refusal ones
local values, writes, ttls, on_refusal, locks = {false, false}, {false, false}
local reply, complete = '', true

for k = 1, #KEYS do
  local part, limit_count, cost, role
  part, limit_count, cost, role, next_charge = unpack('<i8Bi8B', args, next_charge)
  local shadow = role == SHADOW
  -- charge: works out what a charge does to its key. Writes nothing.
  -- takes   k, part, limit_count   the key; where its policy begins in args, and how many limits it has
  --         cost, shadow          the cost; whether the charge is only watched
  --         slack_ms, patience
  -- gives   found, created_at    of the key
  --         admits, locked  whether all limits have room; whether a lock is in the way
  --         records, ttl    the value as charged; how long the key lives then, nil if as long as before
  --         charged         what the reply says of it: each record's head without its tag, and state
  --         locking, locking_ttl   the value with a new lock, if a refusal sets one; else nil

  -- get_value: reads a key.
  -- takes   k
  -- gives   found       the value of KEYS[k]; '' if there is none, or none that this library can have written
  --         MAX_VALUE   the longest value that counts: eight times the most that one call may cover
  local MAX_VALUE = 2^23
  local found = redis.pcall('GET', KEYS[k]) or ''
  local length = #found
  if length == 0 and found ~= '' then -- an error, which is a table without a length
    if string.sub(found.err, 1, 9) ~= 'WRONGTYPE' then return found end
    found = ''
  elseif length > MAX_VALUE then
    found = ''
  end
  -- parse_value: checks a key's value, and reads its first record, which mostly is the one that is needed.
  -- takes   found
  -- gives   value   what was found; '' unless it is exactly a time of creation and records
  --         stop    the place behind the value
  --         created_at   when the key was created, by the server's clock
  --         place   where the record that was read begins
  --         tag, size, expires, a, b, c   its head and its state; tag is nil if there is none that can hold a state
  local value, stop, place, created_at, tag, size, expires, a, b, c = found, #found + 1, HEAD + 1
  if place + RECORD + STATE <= stop then -- numbers are read unsigned: negative ones are then too large
    created_at, tag, size, expires, a, b, c = unpack('<c8c8I4I8I8I8I8', value)
    place = place + RECORD + size
  end
  while place + RECORD <= stop do place = place + RECORD + unpack('<I4', value, place + 8) end
  if place ~= stop then value, stop, created_at, tag = '', 1, nil, nil end
  place = HEAD + 1
  if stop == 1 then
    local time = injected and redis.call('TIME')
    created_at = pack('<i8', time and time[1] * 1000000 + time[2] or now)
  elseif not created_at then
    created_at = string.sub(value, 1, HEAD)
  end
  local admits, locked, ttl, locking, locking_ttl = true, false
  local records, charged, old_expiry, new_expiry = created_at, '', 0, 0
  local limits_end = part + LIMIT * limit_count
  for at = part, limits_end - 1, LIMIT do
    local algorithm, own, x, y, z, others = unpack('<Bc8i8i8i8', args, at)
    -- find_record: finds the record of a limit. Mostly it was read already, as records stand in the order of limits.
    -- takes   own     the limit's tag
    --         value, stop, place, tag, size, expires, a, b, c   of parse_value, or append_record of the limit before
    --         old_expiry
    -- gives   a, b, c   the record's state; nil without a record that has not expired and whose numbers are valid
    --         latest    a valid record's own time is before it
    --         cell, cells_end   its cells lie in value from cell to before cells_end
    --         cells, expiry     '' and nil, for the step to set
    --         place, old_expiry   moved behind this record; place may be behind stop
    local first, latest = place
    if tag ~= own then
      first, size, expires = HEAD + 1, 0, 0
      while first < stop and string.sub(value, first, first + 7) ~= own do
        first = first + RECORD + unpack('<I4', value, first + 8)
      end
      if first < stop then size, expires = unpack('<I4I8', value, first + 8) end
      if size >= STATE then a, b, c = unpack('<I8I8I8', value, first + RECORD) end
    end
    local cell, cells_end, cells, expiry = first + RECORD + STATE, first + RECORD + size, ''
    if first == place then place = cells_end end
    if
      expires > now and expires < EXACT and size >= STATE and (size - STATE) % CELL == 0
      and a < EXACT and b < EXACT and c < EXACT
    then
      latest = expires < MAX_TIME and expires or MAX_TIME
      if expires > old_expiry then old_expiry = expires end
    else
      a, b, c = nil, nil, nil
    end
    if algorithm == 1 then
      -- Fixed window. numbers: limit, period, start (0 first, 1 epoch, 2 calendar), a calendar's bounds around now.
      -- state: start, finish, count.
      local limit, period, kind, start, finish, count, low, middle, high = x, y, z, a, b, c
      if kind == 2 then low, middle, high = unpack('<i8i8i8', args, others) end
      if start then
        local length = finish - start
        local valid = length == period or kind == 2 and length > 0 and length <= high - low
        if not valid or start >= latest then start = nil end
      end
      local instant = start and start > now and start or now
      if not start or instant >= finish then
        if kind == 2 then
          if instant < low or instant >= high then return 'O' .. pack('<i8', now) end
          start, finish = instant < middle and low or middle, instant < middle and middle or high
        else
          start = kind == 1 and instant - instant % period or instant
          finish = start + period
        end
        count = 0
      end
      admits = cost <= limit - count
      a, b, c, expiry = start, finish, count + cost, finish
    elseif algorithm == 2 then
      -- Sliding window. numbers: limit, precision, blocks. state: newest block, its count, total.
      -- cells: the older blocks that still count, oldest first, as (block, count).
      local limit, precision, blocks, newest, count, total = x, y, z, a, b, c
      if newest and newest * precision >= latest then newest = nil end
      local current = (now - now % precision) / precision
      if newest and newest > current then current = newest end
      local oldest = current - blocks
      -- prune_history: drops what of a history no longer counts, and judges whether the limit has room for the cost.
      -- takes   newest, count, total   the state: the newest cell and its count, and the total; newest is nil without one
      --         current, oldest        the cell to be charged, and the oldest that counts
      --         limit, cost, value, cell, cells_end
      -- gives   admits         whether it has room
      --         count, total   of the cell to be charged and of all, before the charge
      --         cells          the older cells that count
      local live = newest and newest >= oldest
      while live and cell < cells_end do
        local from, counted = unpack('<i8i8', value, cell)
        if from >= oldest then break end
        live = counted >= 0 and counted <= total - count -- or the total does not hold the cells: the record is not valid
        total, cell = total - counted, cell + CELL
      end
      if not live then count, total, cell = 0, 0, cells_end end
      admits = cost <= limit - total
      if admits and cell < cells_end then cells = string.sub(value, cell, cells_end - 1) end
      if live and newest < current then
        if admits and count > 0 then cells = cells .. pack('<i8i8', newest, count) end
        count = 0
      end
      a, b, c, expiry = current, count + cost, total + cost, (current + blocks + 1) * precision
    elseif algorithm == 3 then
      -- Token bucket. numbers: burst, debt, units per token, refill (units that come back), every (how often), start.
      -- state: units used at `last`, last, and what refunds have given back, counted on from the units per token of that time.
      -- cells: where these two differ, a note of the units, as (0, -units).
      local burst, debt, units, used, last, refunded = x, y, z, a, b, c
      local refill, every, epoch = unpack('<i8i8i8', args, others)
      if last and last >= latest then last = nil end
      local instant = last and last > now and last or now
      if last and refill > 0 then
        local old_units = refunded
        if cell < cells_end then old_units = -unpack('<i8', value, cell + 8) end
        if old_units ~= units then
          local amount, per = used, old_units <= refunded and old_units or 0
          -- rescale: amount * units / per. Long multiplication, bit by bit, since a double does not hold the product.
          -- takes   amount, units, per
          -- gives   rescaled   below EXACT, rounded down
          --         inexact    whether it was
          local rescaled, inexact = 0, false
          if amount > 0 and per > 0 then
            local whole, part = math.floor(amount / per), amount % per
            local quotient, rest = 0, 0
            for bit = 52, 0, -1 do
              quotient, rest = quotient * 2, rest * 2
              if rest >= per then quotient, rest = quotient + 1, rest - per end
              if math.floor(units / 2^bit) % 2 == 1 then
                if rest >= per - part then
                  quotient, rest = quotient + 1, rest - (per - part)
                else
                  rest = rest + part
                end
              end
            end
            rescaled, inexact = math.min(whole * units + quotient, EXACT - 1), rest > 0
            if whole > (EXACT - 1) / units then rescaled, inexact = EXACT - 1, false end
          end
          used = inexact and math.min(rescaled + 1, EXACT - 1) or rescaled
          refunded = EXACT - 1
        end
        local part = (instant - last) % every
        used = used - refill * ((instant - last - part) / every)
        last = instant - part
      else
        refunded = units
      end
      if not last or refill == 0 or used <= 0 then
        used, last = 0, epoch == 1 and instant - instant % every or instant
      end
      local room = debt < cost and burst + debt - cost or burst
      admits = used <= room * units
      if admits then
        used = used + cost * units
        local full = last + math.ceil(used / (refill > 0 and refill or 1)) * every
        a, b, c, expiry = used, last, refunded, full < EXACT and full or EXACT - 1
        if refunded ~= units then
          cells = pack('<i8i8', 0, -units)
          if refunded < EXACT - 1 and expires > expiry then expiry = expires end
        end
      end
    elseif algorithm == 4 then
      -- Sliding log. numbers: limit, period. state: newest entry, its count, total.
      -- cells: the older entries that still count, oldest first, as (instant, count).
      local limit, period, newest, count, total = x, y, a, b, c
      if newest and newest >= latest then newest = nil end
      local current = newest and newest > now and newest or now
      local oldest = current - period + 1
      -- prune_history: drops what of a history no longer counts, and judges whether the limit has room for the cost.
      -- takes   newest, count, total   the state: the newest cell and its count, and the total; newest is nil without one
      --         current, oldest        the cell to be charged, and the oldest that counts
      --         limit, cost, value, cell, cells_end
      -- gives   admits         whether it has room
      --         count, total   of the cell to be charged and of all, before the charge
      --         cells          the older cells that count
      local live = newest and newest >= oldest
      while live and cell < cells_end do
        local from, counted = unpack('<i8i8', value, cell)
        if from >= oldest then break end
        live = counted >= 0 and counted <= total - count -- or the total does not hold the cells: the record is not valid
        total, cell = total - counted, cell + CELL
      end
      if not live then count, total, cell = 0, 0, cells_end end
      admits = cost <= limit - total
      if admits and cell < cells_end then cells = string.sub(value, cell, cells_end - 1) end
      if live and newest < current then
        if admits and count > 0 then cells = cells .. pack('<i8i8', newest, count) end
        count = 0
      end
      a, b, c, expiry = current, count + cost, total + cost, current + period
    elseif algorithm == 5 then
      -- Sliding window counter. numbers: limit, period. state: start of the current window, previous, current.
      local limit, period, start, previous, current = x, y, a, b, c
      if start and (start >= latest or start % period ~= 0) then start = nil end
      local instant = start and start > now and start or now
      local window = instant - instant % period
      if not start or window > start + period then
        previous, current = 0, 0
      elseif window > start then
        previous, current = current, 0
      end
      local weight = previous * (period - (instant - window)) / period + current
      admits = cost <= limit and weight + cost <= limit
      a, b, c, expiry = window, previous, current + cost, window + 2 * period
    elseif algorithm == 6 then
      -- Leaky bucket. numbers: rate, period, capacity. state: start of the period, count, and what refunds have given back.
      local rate, period, capacity, start, count, refunded = x, y, z, a, b, c
      if start and start >= latest then start = nil end
      local instant = start and start > now and start or now
      if start and rate > 0 then
        local part = (instant - start) % period
        count = count - (instant - start - part) / period * rate
        start = instant - part
      else
        refunded = 0
      end
      if not start or rate == 0 or count <= 0 then start, count = instant, 0 end
      admits = count <= capacity + rate - cost
      if admits then
        count = count + cost
        local gone = math.min(start + math.ceil(count / rate) * period, EXACT - 1)
        admits = count <= rate or gone - period - instant <= patience
        a, b, c, expiry = start, count, refunded, gone
        if refunded > 0 and refunded < EXACT - 1 and expires > gone then expiry = expires end
      end
    end
    if not admits then break end
    -- append_record: appends the record as charged, and reads the next one, which mostly is the next limit's.
    -- takes   own, a, b, c, cells, expiry   the record
    --         value, stop, place, records, charged, new_expiry
    -- gives   records, charged, new_expiry   with this record
    --         tag, size, expires, a, b, c    of the record at place; tag is nil if there is none that can hold a state
    local head = pack('<I4i8i8i8i8', STATE + #cells, expiry, a, b, c)
    records, charged = records .. own .. head .. cells, charged .. head
    if expiry > new_expiry then new_expiry = expiry end
    tag = nil
    if place + RECORD + STATE <= stop then tag, size, expires, a, b, c = unpack('<c8I4I8I8I8I8', value, place) end
  end
  if place < stop or not admits then
    -- find_lock: reads a key's lock, which is the last record.
    -- takes   value, stop
    -- gives   LOCK             a lock's tag
    --         lock_time        the time at which the lock is judged; nil: there is none, or it is forgotten
    --         lock_finish      until when it holds
    --         lock_level       how many levels of the penalty it has taken
    --         lock_by_hand     1 if somebody set it by hand, else 0
    --         lock_forgotten   from when on its level no longer matters
    local LOCK, last = 'penalty\0', stop - RECORD - STATE
    local lock_time, lock_finish, lock_level, lock_by_hand, lock_forgotten
    if last > HEAD and string.sub(value, last, last + 7) == LOCK then
      local size, start, mark
      size, lock_forgotten, start, lock_finish, mark = unpack('<I4i8i8i8i8', value, last + 8)
      lock_level, lock_by_hand = math.floor(mark / 2), mark % 2
      local valid = size == STATE and math.min(start, lock_finish, mark) >= 0 and math.max(lock_forgotten, mark) < EXACT
      valid = valid and lock_finish <= lock_forgotten and start < math.min(MAX_TIME, lock_forgotten)
      lock_time = valid and lock_forgotten > now and math.max(now, start) or nil
    end
    locked = lock_time and lock_time < lock_finish or false
    if admits and not locked then
      -- copy_other_records: copies records of other limits, and a lock that is over, until they expire.
      -- takes   value, stop
      --         records      the records of the policy's limits
      --         new_expiry
      -- gives   records, new_expiry   with the others
      --         old_expiry            0, so that the TTL is set
      local tags, from, written = {}, HEAD + 1, HEAD + 1
      while written <= #records do
        tags[string.sub(records, written, written + 7)] = true
        written = written + RECORD + unpack('<I4', records, written + 8)
      end
      while from < stop do
        local size, expires = unpack('<I4i8', value, from + 8)
        if expires > now and expires < EXACT and not tags[string.sub(value, from, from + 7)] then
          records = records .. string.sub(value, from, from + RECORD + size - 1)
          if expires > new_expiry then new_expiry = expires end
        end
        from = from + RECORD + size
      end
      old_expiry = 0
    else
      -- lock_after_refusal: what a refusal does to the lock. A violation takes the penalty's next level, of which the last
      -- repeats; a hit while locked may start the lock anew. Callers who wait for their turn are never punished.
      -- takes   locked, shadow, cost, limits_end, patience, slack_ms   as in charge
      --         value, stop, created_at
      --         LOCK, lock_time, lock_finish, lock_level, lock_by_hand   of find_lock
      -- gives   locking, locking_ttl   of set_lock
      local levels, extends = string.byte(args, limits_end, limits_end + 1)
      if levels > 0 and not shadow and cost > 0 and patience >= EXACT then
        local level = lock_time and lock_level or 0
        if locked then level = math.max(level, 1) - 1 end
        if not locked or extends == 1 and lock_by_hand == 0 then
          level, lock_time = math.min(level, levels - 1), lock_time or now
          local length, memory = unpack('<i8i8', args, limits_end + 2 + 16 * level)
          lock_finish, lock_level, lock_by_hand = lock_time + length, level + 1, 0
          -- set_lock: puts a lock into a value. Writes nothing.
          -- takes   value, stop, created_at, slack_ms, LOCK, lock_time, lock_finish, lock_level, lock_by_hand
          --         memory   for how long the level is remembered after the lock's finish
          -- gives   locking, locking_ttl   the value with that lock; how long its key lives then
          local others, last, from = '', math.min(lock_finish + memory, EXACT - 1), HEAD + 1
          local lock = LOCK .. pack('<I4i8i8i8i8', STATE, last, lock_time, lock_finish, 2 * lock_level + lock_by_hand)
          while from < stop do
            local size, expires = unpack('<I4i8', value, from + 8)
            if expires < EXACT and string.sub(value, from, from + 7) ~= LOCK then
              others, last = others .. string.sub(value, from, from + RECORD + size - 1), math.max(last, expires)
            end
            from = from + RECORD + size
          end
          locking, locking_ttl = created_at .. others .. lock, math.ceil((last - now) / 1000) + slack_ms
        end
      end
    end
  end
  if new_expiry > old_expiry then ttl = math.ceil((new_expiry - now) / 1000) + slack_ms end
  local status = locked and LOCKED or admits and OK or OVER
  values[k], writes[k] = found, status == OK and cost > 0 and records
  if ttl then
    ttls = ttls or {}
    ttls[k] = ttl
  end
  if role == ENFORCE then
    if status > enforced then enforced = status end
  elseif role == ON_REFUSAL then
    if status > refusals then refusals = status end
    on_refusal = on_refusal or {}
    on_refusal[k] = true
  end
  if locking then
    locks = locks or {}
    locks[k] = {value = locking, ttl = locking_ttl, status = status}
  end
  reply, complete = reply .. created_at .. charged, complete and writes[k]
end

-- A call that passes charges all but its on_refusal limits. One that is refused charges only those, and may lock.
local status = refusals == OK and enforced or refusals
local passes, counts_refusal, written = status == OK, refusals == OK and enforced == OVER, false
for k = 1, #KEYS do
  local charges, lock = passes, not passes and locks and locks[k]
  if on_refusal and on_refusal[k] then charges = counts_refusal end
  if charges and writes[k] then
    written = true
    if ttls and ttls[k] then
      redis.call('SET', KEYS[k], writes[k], 'PX', ttls[k])
    else
      redis.call('SET', KEYS[k], writes[k], 'KEEPTTL')
    end
  elseif lock and lock.status == status then
    written = true
    redis.call('SET', KEYS[k], lock.value, 'PX', lock.ttl)
  end
end
if passes and complete and not on_refusal then return 'C' .. pack('<i8', now) .. reply end

local answer = (written and 'W' or 'F') .. pack('<i8', now)
for k = 1, written and #KEYS or 0 do
  answer = answer .. (writes[k] and string.sub(writes[k], 1, HEAD) or pack('<i8', 0))
end
for k = 1, #KEYS - 1 do answer = answer .. pack('<I4', #values[k]) .. values[k] end
return answer .. values[#KEYS]
