-- get_value: reads a key.
-- takes   key
-- gives   found       its value; '' if there is none, or none that this library can have written
--         length      how long that is
local found = redis.pcall('GET', key) or ''
local length = #found
if length == 0 and found ~= '' then -- an error, which is a table without a length
  if string.sub(found.err, 1, 9) ~= 'WRONGTYPE' then return found end
  found = ''
elseif length > 2^23 then -- eight times the most that one call may cover
  found, length = '', 0
end
