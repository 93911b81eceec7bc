-- Sliding log. numbers: limit, period. state: newest entry, its count, total.
-- cells: the older entries that still count, oldest first, as (instant, count).
local function sliding_log(at, cost, newest, count, total, value, cell, stop)
  local limit, period = unpack('<i8i8', args, at)
  if newest and newest >= latest then newest = nil end
  local current = max(now, newest or 0)
  local oldest = current - period + 1
--[[ kept ]]
  return pack('<i8i8i8', current, count + cost, total + cost), cells, current + period
end

local function sliding_log_refund(at, cost, receipt, newest, count, total, value, cell, stop)
  return history_refund(cost, unpack('<i8', ARGV[2], receipt), newest, count, total, value, cell, stop)
end
