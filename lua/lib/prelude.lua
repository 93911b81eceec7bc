-- What every script starts with. Only the names that most calls need: each costs every call a little.
-- ARGV[1] begins with three int64: slack_ms, patience and now (-1: the server's clock decides).
local unpack, pack, args = struct.unpack, struct.pack, ARGV[1]
local EXACT, MAX_TIME = 2^53, 2^53 - 2^50
local HEAD, RECORD, STATE, CELL, LOCK = 8, 20, 24, 16, 'penalty\0'
local SLACK_AT, PATIENCE_AT, NOW_AT, REST_AT = 1, 9, 17, 25
local ENFORCE, SHADOW, ON_REFUSAL = 0, 1, 2
