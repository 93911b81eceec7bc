-- find_record: finds the record of a limit. Mostly it was read already, as records stand in the order of limits.
-- takes   own     the limit's tag
--         value, stop, place, tag, size, expires, a, b, c   of read_value, or append_record of the limit before
--         old_expiry
-- gives   a, b, c   the record's state; nil without a record that has not expired and whose numbers are valid
--         latest    a valid record's own time is before it
--         cell, cells_end   its cells lie in value from cell to before cells_end
--         cells, new_size, kept, pushed, expiry   '', STATE, nil, nil and nil, for the step to set
--         place, old_expiry   moved behind this record
local cells, cells_end, new_size, expiry, latest, kept, pushed = '', place + RECORD + size, STATE
if tag == own then
  place = cells_end
else
  local first = HEAD + 1
  while first + RECORD <= stop and string.sub(value, first, first + 7) ~= own do
    first = first + RECORD + unpack('<I4', value, first + 8)
  end
  size, expires = 0, 0
  if first + RECORD <= stop then
    size, expires = unpack('<I4I8', value, first + 8)
    cells_end = first + RECORD + size
    if size >= STATE and cells_end <= stop then a, b, c = unpack('<I8I8I8', value, first + RECORD) end
    if first == place then place = cells_end end
  end
end
local cell = cells_end - size + STATE
if
  expires > now and expires < EXACT and (size == STATE or size > STATE and (size - STATE) % CELL == 0)
  and cells_end <= stop and a < EXACT and b < EXACT and c < EXACT
then
  latest = expires < MAX_TIME and expires or MAX_TIME
  if expires > old_expiry then old_expiry = expires end
else
  a, b, c = nil, nil, nil
end
