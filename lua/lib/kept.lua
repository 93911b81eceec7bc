-- What of a history still counts: count, total and cells from `oldest` on, before cost is charged to the cell
-- `current`; a refusal when the limit has no room for that.
local live = newest and newest >= oldest
while live and cell < cells_end do
  local from, counted = unpack('<i8i8', value, cell)
  if from >= oldest then break end
  live = counted >= 0 and counted <= total - count -- a total that does not hold the cells is none of ours
  total, cell = total - counted, cell + CELL
end
if not live then count, total, cell = 0, 0, cells_end end
if cost > limit - total then break end
if cell < cells_end then cells = string.sub(value, cell, cells_end - 1) end
if live and newest < current then
  if count > 0 then cells = cells .. pack('<i8i8', newest, count) end
  count = 0
end
