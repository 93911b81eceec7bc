-- Leaky bucket. numbers: rate, period, capacity. state: start of the period, count, 0.
local function leaky_bucket(at, cost, start, count)
  local rate, period, capacity = unpack('<i8i8i8', args, at)
  if start and start >= latest then start = nil end
  local instant = start and max(now, start) or now
  if start and rate > 0 then
    count = count - floor((instant - start) / period) * rate
    start = instant - (instant - start) % period
  end
  if not start or rate == 0 or count <= 0 then start, count = instant, 0 end
  if count > capacity + rate - cost then return end
  count = count + cost
  local gone = min(start + ceil(count / rate) * period, EXACT - 1)
  if count > rate and gone - period - instant > patience then return end
  return pack('<i8i8i8', start, count, 0), '', gone
end

local function leaky_bucket_refund(at, cost, receipt, start, count)
  local rate, period = unpack('<i8i8', args, at)
  local then_start, then_count = unpack('<i8i8', ARGV[2], receipt)
  local left = max(0, then_count - floor((max(now, start) - then_start) / period) * rate)
  return pack('<i8i8i8', start, max(0, count - min(cost, left)), 0), ''
end
