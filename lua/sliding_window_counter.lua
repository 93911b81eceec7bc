-- Sliding window counter. numbers: limit, period. state: start of the current window, previous, current.
local limit, period, start, previous, current = x, y, a, b, c
if start and (start >= latest or start % period ~= 0) then start = nil end
local instant = start and start > now and start or now
local window = instant - instant % period
if not start or window > start + period then
  previous, current = 0, 0
elseif window > start then
  previous, current = current, 0
end
local weight = previous * (period - (instant - window)) / period + current
admits = needed <= limit and weight + needed <= limit or always
current = current + cost
if current >= EXACT then current = EXACT - 1 end
a, b, c = window, previous, current
expiry = window + 2 * period

local function sliding_window_counter_refund(numbers, cost, receipt, start, previous, current)
  local period, charged = unpack('<i8', args, numbers + 8), unpack('<i8', ARGV[2], receipt)
  if start == charged and current < EXACT - 1 then
    current = max(0, current - cost)
  elseif start == charged + period and previous < EXACT - 1 then
    previous = max(0, previous - cost)
  else
    return
  end
  return pack('<i8i8i8', start, previous, current), ''
end

local function sliding_window_counter_merged(numbers, own, reported)
  local _, period = unpack('<i8i8', args, numbers)
  local function is_valid(record) return record.a % period == 0 and record.a < min(MAX_TIME, record.expires) end
  if reported.a > now or not is_valid(reported) then return end
  if not own or not is_valid(own) then return reported.a, reported.b, reported.c, '', reported.a + 2 * period end
  local start = max(own.a, reported.a)
  local function at_start(record)
    if record.a == start then return record.b, record.c end
    return record.a + period == start and record.c or 0, 0
  end
  local previous, current = at_start(own)
  local reported_previous, reported_current = at_start(reported)
  return start, max(previous, reported_previous), max(current, reported_current), '', start + 2 * period
end
