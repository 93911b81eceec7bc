-- parse_value: checks a key's value, and reads its first record, which mostly is the one that is needed.
-- takes   found
-- gives   value   what was found; '' unless it is exactly a birth and records
--         stop    the place behind the value
--         birth   when the key came to be, by the server's clock
--         place   where the record that was read begins
--         tag, size, expires, a, b, c   its head and its state; tag is nil if there is none that can hold a state
local value, stop, place, birth, tag, size, expires, a, b, c = found, #found + 1, HEAD + 1
if place + RECORD + STATE <= stop then -- numbers are read unsigned: negative ones are then too large
  birth, tag, size, expires, a, b, c = unpack('<c8c8I4I8I8I8I8', value)
  place = place + RECORD + size
end
while place + RECORD <= stop do place = place + RECORD + unpack('<I4', value, place + 8) end
if place ~= stop then value, stop, birth, tag = '', 1, nil, nil end
place = HEAD + 1
if stop == 1 then
  local time = injected and redis.call('TIME')
  birth = pack('<i8', time and time[1] * 1000000 + time[2] or now)
elseif not birth then
  birth = string.sub(value, 1, HEAD)
end
