-- Sliding log. numbers: limit, period. state: newest entry, its count, total.
-- cells: the older entries that still count, oldest first, as (instant, count).
local limit, period, newest, count, total = x, y, a, b, c
if newest and newest >= latest then newest = nil end
local current = newest and newest > now and newest or now
local oldest = current - period + 1
--[[ prune_history ]]
if pushed and new_size > STATE + CELL * 9999 then -- the two oldest become one at the later time
  local _, oldest, at, counted = unpack('<i8i8i8i8', value, kept)
  cells, kept, new_size = pack('<i8i8', at, oldest + counted), kept + 2 * CELL, new_size - 2 * CELL
end
a, b, c = current, count, total
expiry = current + period

local function sliding_log_refund(numbers, cost, receipt, newest, count, total, value, cell, stop)
  return history_refund(cost, unpack('<i8', ARGV[2], receipt), newest, count, total, value, cell, stop)
end

local function sliding_log_merged(numbers, own, reported)
  local _, period = unpack('<i8i8', args, numbers)
  local function is_valid(record) return record.a < min(MAX_TIME, record.expires) end
  if reported.a > now or not is_valid(reported) then return end
  local newest, count, total, cells = history_merged(own and is_valid(own) and own, reported, period - 1)
  if newest then return newest, count, total, cells, newest + period end
end
