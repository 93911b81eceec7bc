-- Sliding window. numbers: limit, precision, blocks. state: newest block, its count, total.
-- cells: the older blocks that still count, oldest first, as (block, count).
local limit, precision, blocks, newest, count, total = x, y, z, a, b, c
if newest and newest * precision >= latest then newest = nil end
local current = (now - now % precision) / precision
if newest and newest > current then current = newest end
local oldest = current - blocks
--[[ prune_history ]]
a, b, c = current, count, total
expiry = (current + blocks + 1) * precision

local function sliding_window_refund(numbers, cost, receipt, newest, count, total, value, cell, stop)
  return history_refund(cost, unpack('<i8', ARGV[2], receipt), newest, count, total, value, cell, stop)
end

local function sliding_window_merged(numbers, own, reported)
  local _, precision, blocks = unpack('<i8i8i8', args, numbers)
  local function is_valid(record) return record.a * precision < min(MAX_TIME, record.expires) end
  if reported.a * precision > now or not is_valid(reported) then return end
  local newest, count, total, cells = history_merged(own and is_valid(own) and own, reported, blocks)
  if newest then return newest, count, total, cells, (newest + blocks + 1) * precision end
end
