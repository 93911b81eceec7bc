-- Sliding window. numbers: limit, precision, blocks. state: newest block, its count, total.
-- cells: the older blocks that still count, oldest first, as (block, count).
local function sliding_window(at, cost, newest, count, total, value, cell, stop)
  local limit, precision, blocks = unpack('<i8i8i8', args, at)
  if newest and newest * precision >= latest then newest = nil end
  local current = max(floor(now / precision), newest or 0)
  local oldest = current - blocks
--[[ kept ]]
  return pack('<i8i8i8', current, count + cost, total + cost), cells, (current + blocks + 1) * precision
end

local function sliding_window_refund(at, cost, receipt, newest, count, total, value, cell, stop)
  return history_refund(cost, unpack('<i8', ARGV[2], receipt), newest, count, total, value, cell, stop)
end
