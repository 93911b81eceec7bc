-- find_record: finds the record of a limit. Mostly it was read already, as records stand in the order of limits.
-- takes   own     the limit's tag
--         value, stop, place, tag, size, expires, a, b, c   of parse_value, or append_record of the limit before
--         old_expiry
-- gives   a, b, c   the record's state; nil without a record that has not expired and whose numbers are valid
--         latest    the record's own time is before it, or the record is not valid
--         cell, cells_end   its cells lie in value from cell to before cells_end
--         cells, expiry     '' and nil, for the step to set
--         place, old_expiry   moved behind this record; place may be behind stop
local first, latest = place
if tag ~= own then
  first, size, expires = HEAD + 1, 0, 0
  while first < stop and string.sub(value, first, first + 7) ~= own do
    first = first + RECORD + unpack('<I4', value, first + 8)
  end
  if first < stop then size, expires = unpack('<I4I8', value, first + 8) end
  if size >= STATE then a, b, c = unpack('<I8I8I8', value, first + RECORD) end
end
local cell, cells_end, cells, expiry = first + RECORD + STATE, first + RECORD + size, ''
if first == place then place = cells_end end
if
  expires > now and expires < EXACT and size >= STATE and (size - STATE) % CELL == 0
  and a < EXACT and b < EXACT and c < EXACT
then
  latest = expires < MAX_TIME and expires or MAX_TIME
  if expires > old_expiry then old_expiry = expires end
else
  a, b, c = nil, nil, nil
end
