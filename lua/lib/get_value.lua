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
