-- Sliding log. numbers: limit, period. state: newest entry, its count, total.
-- cells: the older entries that still count, oldest first, as (instant, count).
local own, limit, period = unpack('<c8i8i8', args, at)
--[[ find_record ]]
local newest, count, total = a, b, c
if newest and newest >= latest then newest = nil end
local current = newest and newest > now and newest or now
local oldest = current - period + 1
--[[ prune_history ]]
a, b, c, expiry = current, count + cost, total + cost, current + period
--[[ append_record ]]

local function sliding_log_refund(at, cost, receipt, newest, count, total, value, cell, stop)
  return history_refund(cost, unpack('<i8', ARGV[2], receipt), newest, count, total, value, cell, stop)
end
