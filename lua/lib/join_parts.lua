-- join_parts: makes one string of what is new and what is kept of a value, unless the latter can stay where it is, and
-- to write around it costs less than to copy it.
-- takes   found, length, records, parts, begun, fits, whole, place, stop, new_expiry, old_expiry   of charge
-- gives   records, parts   one string and nil; or the first new text, and a list: each new text, where what is kept behind
-- it begins, and where that ends
fits = fits and begun + #records >= length and place == stop and new_expiry - new_expiry % 500000 <= old_expiry
if records ~= '' then parts[#parts + 1] = records end
if fits and not whole and length >= 80 * (#parts - 3) then
  records = parts[1]
else
  for i = 2, #parts, 3 do parts[i], parts[i + 1] = string.sub(found, parts[i], parts[i + 1] - 1), '' end
  records, parts = table.concat(parts), nil
end
