-- read_value: reads a value's first record, which mostly is the one that is needed. Whether more records follow as they
-- should is checked later.
-- takes   found, length
-- gives   value        what was found; '' if it is too short for a value
--         stop         the place behind the value, or of the first record of a new one
--         created_at   when the key was created, by the server's clock
--         place        where the record begins
--         tag, size, expires, a, b, c   its head and its state; tag is nil if there is none that can hold a state
local value, stop, place = found, length + 1, HEAD + 1
local BLANK = '                                                    ' -- read in place of a value without a whole record
-- Numbers are read unsigned: negative ones are then too large.
local created_at, tag, size, expires, a, b, c = unpack('<c8c8I4I8I8I8I8', length >= HEAD + WHOLE and found or BLANK)
if length < HEAD + WHOLE then
  tag = nil
  if length < HEAD then
    --[[ new_value ]]
  else
    created_at = string.sub(value, 1, HEAD)
  end
end
