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
