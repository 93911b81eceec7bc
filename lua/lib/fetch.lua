  -- found: the key's value, or false. value: what counts of it, which is nothing ('') unless it is exactly a birth
  -- and records to the end; stop: its end. An error that is not about the type is for the client.
  local found = redis.pcall('GET', KEYS[k])
  if type(found) == 'table' then
    if sub(found.err, 1, 9) ~= 'WRONGTYPE' then return found end
    found = false
  end
  local value, stop, place = found or '', found and #found + 1 or 0, HEAD + 1
  while place + RECORD <= stop do place = place + RECORD + unpack('<I4', value, place + 8) end
  if place ~= stop then value, stop = '', 1 end
