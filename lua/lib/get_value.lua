-- get_value: reads a key.
-- takes   k
-- gives   found   the value of KEYS[k]; '' if there is none, or one of another Redis type
local found = redis.pcall('GET', KEYS[k]) or ''
if #found == 0 and found ~= '' then -- an error, which is a table without a length
  if string.sub(found.err, 1, 9) ~= 'WRONGTYPE' then return found end
  found = ''
end
