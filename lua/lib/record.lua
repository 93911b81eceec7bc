-- The record whose tag is `own`: it was read ahead, unless records do not stand in the policy's order.
-- a, b, c: its state, or nil. latest: from there on its own time is one that it cannot have. Its cells lie in `value`
-- from `cell` to before `cells_end`.
local first, latest = place
if tag ~= own then
  first, size, expires = HEAD + 1, 0, 0
  while first < stop and string.sub(value, first, first + 7) ~= own do
    first = first + RECORD + unpack('<I4', value, first + 8)
  end
  if first < stop then size, expires = unpack('<I4i8', value, first + 8) end
  if size >= STATE then a, b, c = unpack('<i8i8i8', value, first + RECORD) end
end
local cell, cells_end, cells, expiry = first + RECORD + STATE, first + RECORD + size, ''
if first == place and first < stop then place = cells_end end
if
  expires > now and expires < EXACT and size >= STATE and (size - STATE) % CELL == 0
  and a >= 0 and b >= 0 and c >= 0 and a < EXACT and b < EXACT and c < EXACT
then
  latest = expires < MAX_TIME and expires or MAX_TIME
  if expires > old_expiry then old_expiry = expires end
else
  a, b, c = nil, nil, nil
end
