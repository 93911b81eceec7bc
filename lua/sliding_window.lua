-- Sliding window. numbers: limit, precision, blocks. state: newest block, its count, total.
-- cells: the older blocks that still count, oldest first, as (block, count).
local function sliding_window(at, value, first, size, cost)
  local limit, precision, blocks = unpack('<i8i8i8', args, at)
  local newest, count, total = -1, 0, 0
  if size > 0 then newest, count, total = unpack('<i8i8i8', value, first) end
  local block = max(floor(now / precision), newest)
  local oldest, cell, stop = block - blocks, first + 24, first + size
  if newest < oldest then count, total, cell = 0, 0, stop end
  while cell < stop do
    local from, counted = unpack('<i8i8', value, cell)
    if from >= oldest then break end
    total, cell = total - counted, cell + 16
  end
  if cost > limit - total then return end
  local cells = sub(value, cell, stop - 1)
  if newest < block and total > 0 then cells, count = cells .. pack('<i8i8', newest, count), 0 end
  return pack('<i8i8i8', block, count + cost, total + cost), cells, (block + blocks + 1) * precision
end
