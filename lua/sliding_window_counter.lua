-- Sliding window counter. numbers: limit, period. state: start of the current window, previous, current.
local own, limit, period = unpack('<c8i8i8', args, at)
--[[ find_record ]]
local start, previous, current = a, b, c
if start and (start >= latest or start % period ~= 0) then start = nil end
local instant = start and start > now and start or now
local window = instant - instant % period
if not start or window > start + period then
  previous, current = 0, 0
elseif window > start then
  previous, current = current, 0
end
local weight = previous * (period - (instant - window)) / period + current
if cost > limit or weight + cost > limit then break end
a, b, c, expiry = window, previous, current + cost, window + 2 * period
--[[ append_record ]]

local function sliding_window_counter_refund(at, cost, receipt, start, previous, current)
  local period, charged = unpack('<i8', args, at + 8), unpack('<i8', ARGV[2], receipt)
  if start == charged then
    current = max(0, current - cost)
  elseif start == charged + period then
    previous = max(0, previous - cost)
  else
    return
  end
  return pack('<i8i8i8', start, previous, current), ''
end
