-- What every script starts with.
-- ARGV[1] begins with three int64: now (-1: the server's clock decides), slack_ms and patience.
local unpack, pack, sub = struct.unpack, struct.pack, string.sub
local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max
local EXACT, MAX_TIME = 2^53, 2^53 - 2^50
local HEAD, RECORD, STATE, CELL = 8, 20, 24, 16
local args = ARGV[1]
local now, slack_ms, patience = unpack('<i8i8i8', args)
local injected = now >= 0
if not injected then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end

-- A key's value as found (false: none) and what counts of it: what is not exactly a birth and records to the end
-- is as if there were nothing. Third an error that is not ours to explain.
local function fetch(key)
  local value = redis.pcall('GET', key)
  if type(value) == 'table' then return false, '', sub(value.err, 1, 9) ~= 'WRONGTYPE' and value end
  if not value then return false, '' end
  local place, stop = HEAD + 1, #value + 1
  while place + RECORD <= stop do place = place + RECORD + unpack('<I4', value, place + 8) end
  return value, place == stop and value or ''
end

-- The birth of a key: when it came to be by the server's clock.
local function birth_of(value)
  if value ~= '' then return sub(value, 1, HEAD) end
  local time = injected and redis.call('TIME')
  return pack('<i8', time and time[1] * 1000000 + time[2] or now)
end

-- Where the record of a tag begins, if there is one.
local function find(value, tag)
  local place, stop = HEAD + 1, #value + 1
  while place < stop do
    if sub(value, place, place + 7) == tag then return place end
    place = place + RECORD + unpack('<I4', value, place + 8)
  end
end
