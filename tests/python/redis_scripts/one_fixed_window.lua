-- SHA1      a9f96e4a1016e44dc10a5296c1838083e142a18e
-- KEYS[1]   ol1:example:user:1
-- ARGV[1]   64 bytes, which are 8 numbers of 8 bytes, little-endian:
--           slack_ms 1000, patience 9223372036854775807, now -1
--           cost 1
--           fixed_window of 10 per 1 minute: tag acf940ca49794e19, then 10, 60000000, 0
--
-- Decides a call of one charge, which is enforced, and charges it.
-- KEYS[1]
-- ARGV[1]   slack_ms, patience, now, cost; per limit its tag and numbers, then the numbers of the penalty
-- returns   'C', now, the key's birth, per limit 12 bytes of its record's head and its state: it was charged
--           'O', now: a calendar does not reach now, and nothing was written
--           'F', now, the key's value as found: nothing was written
--           'W', now, the key's birth, its value as found: it was locked
local unpack, pack, args = struct.unpack, struct.pack, ARGV[1]
local slack_ms, patience, now, cost = unpack('<i8i8i8i8', args)
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
local k, part, shadow = 1, 33, false
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
    -- Fixed window. numbers: limit, period, start (0 first, 1 epoch, 2 calendar), a calendar's bounds around now.
    -- state: start, finish, count.
    local own, limit, period, kind = unpack('<c8i8i8i8', args, at)
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
    local start, finish, count, low, middle, high = a, b, c
    if kind == 2 then low, middle, high = unpack('<i8i8i8', args, at + 32) end
    if start then
      local length = finish - start
      local ours = length == period or kind == 2 and length > 0 and length <= high - low
      if not ours or start >= latest then start = nil end
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
    if cost > limit - count then break end
    a, b, c, expiry = start, finish, count + cost, finish
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
if admits and not locked then
  if ttl then
    redis.call('SET', KEYS[1], records, 'PX', ttl)
  else
    redis.call('SET', KEYS[1], records, 'KEEPTTL')
  end
  return 'C' .. pack('<i8', now) .. charged
end
if locking then
  redis.call('SET', KEYS[1], locking, 'PX', locking_ttl)
  return 'W' .. pack('<i8', now) .. birth .. found
end
return 'F' .. pack('<i8', now) .. found
