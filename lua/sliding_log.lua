-- Sliding log. numbers: limit, period. state: newest entry, its count, total.
-- cells: the older entries that still count, oldest first, as (instant, count).
local function sliding_log(at, cost, newest, count, total, value, cell, stop)
  local limit, period = unpack('<i8i8', args, at)
  if newest and newest >= latest then newest = nil end
  local instant = max(now, newest or 0)
  local oldest = instant - period + 1
  local live = newest and newest >= oldest
  while live and cell < stop do
    local from, counted = unpack('<i8i8', value, cell)
    if from >= oldest then break end
    live = counted >= 0 and counted <= total - count -- a total that does not hold the cells is none of ours
    total, cell = total - counted, cell + CELL
  end
  if not live then count, total, cell = 0, 0, stop end
  if cost > limit - total then return end
  local cells = sub(value, cell, stop - 1)
  if live and newest < instant then
    if count > 0 then cells = cells .. pack('<i8i8', newest, count) end
    count = 0
  end
  return pack('<i8i8i8', instant, count + cost, total + cost), cells, instant + period
end

local function sliding_log_refund(at, cost, receipt, newest, count, total, value, cell, stop)
  return history_refund(cost, unpack('<i8', ARGV[2], receipt), newest, count, total, value, cell, stop)
end
