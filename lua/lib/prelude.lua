-- What every script starts with.
-- ARGV[1] begins with three int64: now (-1: the server's clock decides), slack_ms and patience.
local unpack, pack, sub = struct.unpack, struct.pack, string.sub
local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max
local EXACT, MAX_TIME = 2^53, 2^53 - 2^50
local HEAD, RECORD, STATE, CELL, LOCK = 8, 20, 24, 16, 'penalty\0'
local args = ARGV[1]
local now, slack_ms, patience = unpack('<i8i8i8', args)
local latest -- from here on a record's own time is one that it cannot have
local injected = now >= 0
if not injected then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
