-- parse_value: checks a key's value.
-- takes   found, length
-- gives   value        what was found; '' unless it is exactly a time of creation and records
--         stop         the place behind the value, or of the first record of a new one
--         created_at   when the key was created, by the server's clock
local value, stop, place, created_at = found, length + 1, HEAD + 1
--[[ check_value ]]
if last == stop then
  created_at = string.sub(value, 1, HEAD)
else
  --[[ new_value ]]
end
