  -- value: what of the key's value counts, which is nothing ('') unless it is exactly a birth and records to the end;
  -- stop: its end. With a first record that can hold a state, birth, tag, size, expires, a, b and c are read at once.
--[[ get ]]
  local value, stop, place, birth, tag, size, expires, a, b, c = found, #found + 1, HEAD + 1
  if place + RECORD + STATE <= stop then
    birth, tag, size, expires, a, b, c = unpack('<c8c8I4i8i8i8i8', value)
    place = place + RECORD + size
  end
  while place + RECORD <= stop do place = place + RECORD + unpack('<I4', value, place + 8) end
  if place ~= stop then value, stop, birth, tag = '', 1, nil, nil end
