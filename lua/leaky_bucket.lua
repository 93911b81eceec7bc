-- Leaky bucket. numbers: rate, period, capacity. state: start of the period, count, 0.
local rate, period, capacity, start, count = x, y, z, a, b
if start and start >= latest then start = nil end
local instant = start and start > now and start or now
if start and rate > 0 then
  local part = (instant - start) % period
  count = count - (instant - start - part) / period * rate
  start = instant - part
end
if not start or rate == 0 or count <= 0 then start, count = instant, 0 end
admits = count <= capacity + rate - cost
if admits then
  count = count + cost
  local gone = math.min(start + math.ceil(count / rate) * period, EXACT - 1)
  admits = count <= rate or gone - period - instant <= patience
  a, b, c, expiry = start, count, 0, gone
end

local function leaky_bucket_refund(numbers, cost, receipt, start, count)
  local rate, period = unpack('<i8i8', args, numbers)
  local then_start, then_count = unpack('<i8i8', ARGV[2], receipt)
  local left = max(0, then_count - floor((max(now, start) - then_start) / period) * rate)
  return pack('<i8i8i8', start, max(0, count - min(cost, left)), 0), ''
end
