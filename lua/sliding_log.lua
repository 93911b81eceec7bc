-- Sliding log. numbers: limit, period. state: newest entry, its count, total.
-- cells: the older entries that still count, oldest first, as (instant, count).
local function sliding_log(at, cost, newest, count, total, value, cell, stop)
  local limit, period = unpack('<i8i8', args, at)
  if newest and newest >= MAX_TIME then newest = nil end
  local instant = max(now, newest or 0)
  local gone, cells = instant - period, ''
  if newest and newest > gone then
    while cell < stop do
      local entry, counted = unpack('<i8i8', value, cell)
      if entry > gone then break end
      total, cell = total - counted, cell + CELL
    end
    if cost > limit - total then return end
    cells = sub(value, cell, stop - 1)
    if newest < instant then
      if count > 0 then cells = cells .. pack('<i8i8', newest, count) end
      count = 0
    end
  else
    if cost > limit then return end
    count, total = 0, 0
  end
  return pack('<i8i8i8', instant, count + cost, total + cost), cells, instant + period
end

local function sliding_log_refund(at, cost, receipt, newest, count, total, value, cell, stop)
  return history_refund(cost, unpack('<i8', ARGV[2], receipt), newest, count, total, value, cell, stop)
end
