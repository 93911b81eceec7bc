-- prelude: the names that all fragments share, besides those they list.
-- takes   unpack, pack    of Redis' struct library
--         args            ARGV[1], the arguments of the call
--         now             -1 for the server's clock
-- gives   now, injected   the time of the call in us, and whether it is that of the caller's clock
--         call            of Redis
--         MAX_TIME        times are below it
--         EXACT           integers from 0 to below it are exact in a double; no other number counts
--         HEAD, RECORD, STATE, CELL   bytes of a value's time of creation, a record's head, its state and each of its cells
--         WHOLE           bytes of a record without cells
--         LIMIT           bytes of a limit in args: its algorithm, its tag and six numbers
local call, injected = redis.call, now >= 0
if not injected then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
local MAX_TIME, EXACT = 2^53 - 2^50, 2^53
local HEAD, RECORD, STATE, CELL, WHOLE, LIMIT = 8, 20, 24, 16, 44, 57
