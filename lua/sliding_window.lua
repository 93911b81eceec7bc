-- Sliding window. numbers: limit, precision, blocks. state: newest block, its count, total.
-- cells: the older blocks that still count, oldest first, as (block, count).
local own, limit, precision, blocks = unpack('<c8i8i8i8', args, at)
--[[ find_record ]]
local newest, count, total = a, b, c
if newest and newest * precision >= latest then newest = nil end
local current = (now - now % precision) / precision
if newest and newest > current then current = newest end
local oldest = current - blocks
--[[ prune_history ]]
a, b, c, expiry = current, count + cost, total + cost, (current + blocks + 1) * precision
--[[ append_record ]]

local function sliding_window_refund(at, cost, receipt, newest, count, total, value, cell, stop)
  return history_refund(cost, unpack('<i8', ARGV[2], receipt), newest, count, total, value, cell, stop)
end
