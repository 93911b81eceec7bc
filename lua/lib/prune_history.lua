-- prune_history: drops what of a history no longer counts, and judges whether the limit has room for what is needed.
-- takes   newest, count, total   the state: the newest cell and its count, and the total; newest is nil without one
--         current, oldest        the cell to be charged, and the oldest that counts
--         limit, needed, cost, always, value, cell, cells_end
-- gives   admits           whether it has room, or need not
--         count, total     of the cell to be charged and of all, after the charge
--         kept, pushed     from where on the older cells still count; the one that is now behind them; nil if there are none
--         new_size         of the state and these
local live = newest and newest >= oldest
while live and cell < cells_end do
  local from, counted = unpack('<i8i8', value, cell)
  if from >= oldest then break end
  live = counted >= 0 and counted <= total - count -- or the total does not hold the cells: the record is not valid
  total, cell = total - counted, cell + CELL
end
if not live then count, total, cell = 0, 0, cells_end end
admits = needed <= limit - total or always
if live and newest < current then
  if admits and count > 0 then pushed, new_size = pack('<i8i8', newest, count), STATE + CELL end
  count = 0
end
count = count + cost
if count >= EXACT then count = EXACT - 1 end -- of a record that others have written
total = total + cost
if total >= EXACT - 1 then -- it saturates in the newest cell, so that none of them counts for less than it did
  count, total, cell, pushed, new_size = EXACT - 1, EXACT - 1, cells_end, nil, STATE
end
if cell < cells_end then kept, new_size = cell, new_size + cells_end - cell end
