-- SHA1      5329828fe591b849f6eb928462a980f3c937ea54
-- KEYS[1]   ol1:example:user:1
-- KEYS[2]   ol1:example:user:2
-- ARGV[1]   168 bytes, which are 21 numbers of 8 bytes, little-endian:
--           slack_ms 1000, patience 9223372036854775807, now -1
--           for ol1:example:user:1: policy 1, part 89, cost 1, role 0
--           for ol1:example:user:2: policy 1, part 89, cost 1, role 0
--           sliding_window of 10 per 1 minute: tag 2d1e272905b80041, then 10, 1200000, 50
--           penalty: 2, 0, 60000000, 60000000, 300000000, 300000000
--
-- Decides a call of several charges, or of one that is not enforced, and charges it, all or nothing: everything is
-- checked before anything is written.
-- KEYS      one per charge
-- ARGV[1]   slack_ms, patience, now; per charge the number of its policy, where that policy's part begins, its
--           cost and its role; per policy and limit its tag and numbers, then the numbers of its penalty
-- returns   'C', now; per charge its key's birth, per limit 12 bytes of its record's head and its state: every charge
--           was written
--           'O', now: a calendar does not reach now, and nothing was written
--           'F', now; per key its value as found, and before each but the last its size: nothing was written
--           'W', now, per key its birth; the values as for 'F': something was written, or locked
local unpack, pack, args = struct.unpack, struct.pack, ARGV[1]
local slack_ms, patience, now = unpack('<i8i8i8', args)
-- prelude: the names that all fragments share, besides those they list.
-- takes   unpack, pack   of Redis' struct library
--         args           ARGV[1], the numbers of the call
--         slack_ms       for how long a key outlives its records, in ms
--         patience       how long the caller would wait for its turn, in us; 2^63 - 1 if it does not wait
--         now            -1 for the server's clock
-- gives   now, injected  the time of the call in us, and whether it is that of the caller's clock
--         MAX_TIME       times are below it
--         HEAD, RECORD, STATE, CELL   bytes of a value's birth, a record's head, its state and each of its cells
local injected = now >= 0
if not injected then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local MAX_TIME = 2^53 - 2^50
local HEAD, RECORD, STATE, CELL = 8, 20, 24, 16
local ENFORCE, SHADOW, ON_REFUSAL = 0, 1, 2
local values, writes, ttls, births, reply = {false, false}, {false, false}, {false, false}, '', ''
local passes, fits, complete, any_locked, meta_locked, meta, locks = true, true, true, false, false

for k = 1, #KEYS do
  local number, part, cost, role = unpack('<i8i8i8i8', args, 32 * k - 7)
  local shadow = role == SHADOW
  -- charge: works out what a charge does to its key. Writes nothing.
  -- takes   k, part, cost   the key, where its policy's numbers begin in args, the cost
  --         shadow          whether the charge only watches
  --         number          which policy it is of, if the script knows several
  -- gives   found, birth    of the key
  --         admits, locked  whether all limits have room; whether a lock is in the way
  --         records, ttl    the value as charged; how long the key lives then, nil if as long as before
  --         charged         what the reply tells of it: birth, and each record's head without its tag, and state
  --         locking, locking_ttl   the value with another lock, if that is what a refusal comes to; nil if not

  -- get_value: reads a key.
  -- takes   k
  -- gives   found   the value of KEYS[k]; '' if there is none, or one of another Redis type
  local found = redis.pcall('GET', KEYS[k]) or ''
  if #found == 0 and found ~= '' then -- an error, which is a table without a length
    if string.sub(found.err, 1, 9) ~= 'WRONGTYPE' then return found end
    found = ''
  end
  -- parse_value: checks a key's value, and reads its first record, which mostly is the one that is needed.
  -- takes   found
  -- gives   value   what was found; '' unless it is exactly a birth and records
  --         stop    the place behind the value
  --         birth   when the key came to be, by the server's clock
  --         place   where the record that was read begins
  --         tag, size, expires, a, b, c   its head and its state; tag is nil if there is none that can hold a state
  local value, stop, place, birth, tag, size, expires, a, b, c = found, #found + 1, HEAD + 1
  if place + RECORD + STATE <= stop then
    birth, tag, size, expires, a, b, c = unpack('<c8c8I4i8i8i8i8', value)
    place = place + RECORD + size
  end
  while place + RECORD <= stop do place = place + RECORD + unpack('<I4', value, place + 8) end
  if place ~= stop then value, stop, birth, tag = '', 1, nil, nil end
  place = HEAD + 1
  if stop == 1 then
    local time = injected and redis.call('TIME')
    birth = pack('<i8', time and time[1] * 1000000 + time[2] or now)
  elseif not birth then
    birth = string.sub(value, 1, HEAD)
  end
  local admits, locked, ttl, locking, locking_ttl = false, false
  local records, charged, old_expiry, new_expiry = birth, birth, 0, 0
  repeat -- once: a limit that has no room leaves by break
    do
      local at = part + 0
      -- Sliding window. numbers: limit, precision, blocks. state: newest block, its count, total.
      -- cells: the older blocks that still count, oldest first, as (block, count).
      local own, limit, precision, blocks = unpack('<c8i8i8i8', args, at)
      -- find_record: finds the record of a limit. Mostly it was read already, as records stand in the order of limits.
      -- takes   own     the limit's tag
      --         value, stop, place, tag, size, expires, a, b, c   of parse_value, or append_record of the limit before
      --         old_expiry
      -- gives   a, b, c   the record's state; nil without a record that has not expired and whose numbers can be
      --         latest    the record's own time is before it, or the record is not one of ours
      --         cell, cells_end   its cells lie in value from cell to before cells_end
      --         cells, expiry     '' and nil, for the step to set
      --         place, old_expiry   moved behind this record
      local first, latest = place
      if tag ~= own then
        first, size, expires = HEAD + 1, 0, 0
        while first < stop and string.sub(value, first, first + 7) ~= own do
          first = first + RECORD + unpack('<I4', value, first + 8)
        end
        if first < stop then size, expires = unpack('<I4i8', value, first + 8) end
        if size >= STATE then a, b, c = unpack('<i8i8i8', value, first + RECORD) end
      end
      local cell, cells_end, cells, expiry = first + RECORD + STATE, first + RECORD + size, ''
      if first == place and first < stop then place = cells_end end
      if
        expires > now and expires < 2^53 and size >= STATE and (size - STATE) % CELL == 0
        and a >= 0 and b >= 0 and c >= 0 and a < 2^53 and b < 2^53 and c < 2^53
      then
        latest = expires < MAX_TIME and expires or MAX_TIME
        if expires > old_expiry then old_expiry = expires end
      else
        a, b, c = nil, nil, nil
      end
      local newest, count, total = a, b, c
      if newest and newest * precision >= latest then newest = nil end
      local current = (now - now % precision) / precision
      if newest and newest > current then current = newest end
      local oldest = current - blocks
      -- prune_history: drops what of a history no longer counts, and refuses if the limit has no room for the cost.
      -- takes   newest, count, total   the state: the newest cell and its count, and the total; newest is nil without one
      --         current, oldest        the cell to be charged, and the oldest that counts
      --         limit, cost, value, cell, cells_end
      -- gives   count, total   of the cell to be charged and of all, before the charge
      --         cells          the older cells that count
      local live = newest and newest >= oldest
      while live and cell < cells_end do
        local from, counted = unpack('<i8i8', value, cell)
        if from >= oldest then break end
        live = counted >= 0 and counted <= total - count -- or the total does not hold the cells: not a record of ours
        total, cell = total - counted, cell + CELL
      end
      if not live then count, total, cell = 0, 0, cells_end end
      if cost > limit - total then break end
      if cell < cells_end then cells = string.sub(value, cell, cells_end - 1) end
      if live and newest < current then
        if count > 0 then cells = cells .. pack('<i8i8', newest, count) end
        count = 0
      end
      a, b, c, expiry = current, count + cost, total + cost, (current + blocks + 1) * precision
      -- append_record: appends the record as charged, and reads the next one, which mostly is the next limit's.
      -- takes   own, a, b, c, cells, expiry   the record
      --         value, stop, place, records, charged, new_expiry
      -- gives   records, charged, new_expiry   with this record
      --         tag, size, expires, a, b, c    of the record at place; tag is nil if there is none that can hold a state
      local head = pack('<I4i8i8i8i8', STATE + #cells, expiry, a, b, c)
      records, charged = records .. own .. head .. cells, charged .. head
      if expiry > new_expiry then new_expiry = expiry end
      tag = nil
      if place + RECORD + STATE <= stop then tag, size, expires, a, b, c = unpack('<c8I4i8i8i8i8', value, place) end
    end
    admits = true
  until true
  if place < stop or not admits then
    -- find_lock: reads a key's lock, which is the last record.
    -- takes   value, stop
    -- gives   LOCK             a lock's tag
    --         lock_time        the time at which the lock is judged; nil: there is none, or it is forgotten
    --         lock_finish      until when it holds
    --         lock_level       how many levels of the penalty it has taken
    --         lock_by_hand     1 if somebody set it by hand, else 0
    --         lock_forgotten   from when on its level no longer matters
    local LOCK = 'penalty\0'
    local lock_time, lock_finish, lock_level, lock_by_hand, lock_forgotten
    if string.sub(value, -RECORD - STATE, 7 - RECORD - STATE) == LOCK then
      local size, start, mark
      size, lock_forgotten, start, lock_finish, mark = unpack('<I4i8i8i8i8', value, stop - STATE - 12)
      lock_level, lock_by_hand = math.floor(mark / 2), mark % 2
      local ours = size == STATE and math.min(start, lock_finish, mark) >= 0 and math.max(lock_forgotten, mark) < 2^53
      ours = ours and lock_finish <= lock_forgotten and start < math.min(MAX_TIME, lock_forgotten)
      lock_time = ours and lock_forgotten > now and math.max(now, start) or nil
    end
    locked = lock_time and lock_time < lock_finish or false
    -- lock_after_refusal: what a refusal does to the lock. A violation takes the penalty's next level, of which the last
    -- repeats; a hit while locked may start the lock anew. A caller who waits for its turn is never punished.
    -- takes   admits, locked, shadow, cost, part, number   as in charge
    --         value, stop, birth
    --         LOCK, lock_time, lock_finish, lock_level, lock_by_hand   of find_lock
    -- gives   locking, locking_ttl   of set_lock
    local penalty -- where its numbers begin: levels, whether hits extend, then the length and the memory of each level
    penalty = part + 32
    if penalty and (locked or not admits) and not shadow and cost > 0 and patience >= 2^53 then
      local levels, extends = unpack('<i8i8', args, penalty)
      local level = lock_time and lock_level or 0
      if locked then level = math.max(level, 1) - 1 end
      if not locked or extends == 1 and lock_by_hand == 0 then
        level, lock_time = math.min(level, levels - 1), lock_time or now
        local length, memory = unpack('<i8i8', args, penalty + 16 + 16 * level)
        lock_finish, lock_level, lock_by_hand = lock_time + length, level + 1, 0
        -- set_lock: puts a lock into a value. Writes nothing.
        -- takes   value, stop, birth, LOCK, lock_time, lock_finish, lock_level, lock_by_hand
        --         memory   for how long the level is remembered after the lock's finish
        -- gives   locking, locking_ttl   the value with that lock; how long its key lives then
        local others, last, from = '', math.min(lock_finish + memory, 2^53 - 1), HEAD + 1
        local lock = LOCK .. pack('<I4i8i8i8i8', STATE, last, lock_time, lock_finish, 2 * lock_level + lock_by_hand)
        while from < stop do
          local size, expires = unpack('<I4i8', value, from + 8)
          if expires < 2^53 and string.sub(value, from, from + 7) ~= LOCK then
            others, last = others .. string.sub(value, from, from + RECORD + size - 1), math.max(last, expires)
          end
          from = from + RECORD + size
        end
        locking, locking_ttl = birth .. others .. lock, math.ceil((last - now) / 1000) + slack_ms
      end
    end
    if admits and not locked then
      -- Records of other limits, and a lock that is over, are copied until they expire.
      local tags, from, tag_offsets = {}, HEAD + 1
      tag_offsets = {0}
      for _, offset in ipairs(tag_offsets) do tags[string.sub(args, part + offset, part + offset + 7)] = true end
      old_expiry = 0
      while from < stop do
        local size, expires = unpack('<I4i8', value, from + 8)
        if expires > now and expires < 2^53 and not tags[string.sub(value, from, from + 7)] then
          records = records .. string.sub(value, from, from + RECORD + size - 1)
          new_expiry = math.max(new_expiry, expires)
        end
        from = from + RECORD + size
      end
    end
  end
  if new_expiry > old_expiry then ttl = math.ceil((new_expiry - now) / 1000) + slack_ms end
  values[k], births, writes[k] = found, births .. birth, false
  if locked or not admits then
    if role == ENFORCE then passes, any_locked = false, any_locked or locked end
    if role == ON_REFUSAL then fits, meta_locked = false, meta_locked or locked end
    if locking then
      locks = locks or {}
      locks[k] = {value = locking, ttl = locking_ttl, locked = locked}
    end
  elseif cost > 0 then
    writes[k], ttls[k] = records, ttl or false
  end
  if role == ON_REFUSAL then
    meta = meta or {}
    meta[k] = true
  end
  complete, reply = complete and writes[k] and not meta, reply .. charged
end

-- A call that passes charges all but its meta limits; one that is refused charges only those, and may lock.
if not fits then any_locked = meta_locked end
local charges, written = fits and (passes or meta and not any_locked), false
for k = 1, charges and #KEYS or 0 do
  if writes[k] and (meta and meta[k] or false) ~= passes then
    written = true
    if ttls[k] then
      redis.call('SET', KEYS[k], writes[k], 'PX', ttls[k])
    else
      redis.call('SET', KEYS[k], writes[k], 'KEEPTTL')
    end
  end
end
if charges and passes and complete then return 'C' .. pack('<i8', now) .. reply end
for k, lock in pairs(not (passes and fits) and locks or {}) do
  if lock.locked == any_locked then
    written = true
    redis.call('SET', KEYS[k], lock.value, 'PX', lock.ttl)
  end
end

local answer = (written and 'W' or 'F') .. pack('<i8', now) .. (written and births or '')
for k = 1, #KEYS - 1 do answer = answer .. pack('<I4', #values[k]) .. values[k] end
return answer .. values[#KEYS]
