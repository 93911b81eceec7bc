-- Leaky bucket. numbers: rate, period, capacity. state: start of the period, count, and the sum of refunds.
local rate, period, capacity, start, count, refunded = x, y, z, a, b, c
if start and start >= latest then start = nil end
local instant = start and start > now and start or now
if start and rate > 0 then
  local part = (instant - start) % period
  count = count - (instant - start - part) / period * rate
  start = instant - part
else
  refunded = 0
end
if not start or rate == 0 or count <= 0 then start, count = instant, 0 end
admits = count <= capacity + rate - needed or always
if admits then
  count = count + cost
  if count >= EXACT then count = EXACT - 1 end
  local gone = rate > 0 and math.min(start + math.ceil(count / rate) * period, EXACT - 1) or start
  admits = always or count + needed - cost <= rate or gone - period - instant <= patience
  a, b, c = start, count, refunded
  expiry = gone
  if refunded > 0 and refunded < EXACT - 1 and expires > gone then expiry = expires end
end

local function leaky_bucket_refund(numbers, cost, receipt, start, count, refunded)
  local rate, period = unpack('<i8i8', args, numbers)
  local then_start, then_count, then_refunded = unpack('<i8i8i8', ARGV[2], receipt)
  if max(count, then_count) >= EXACT - 1 then return end
  local drained = floor(max(0, max(now, start) - then_start) / period) * rate
  local given = bucket_refund(cost, then_count, drained, refunded, then_refunded)
  return pack('<i8i8i8', start, max(0, count - given), min(refunded + given, EXACT - 1)), ''
end

local function leaky_bucket_merged(numbers, own, reported)
  local rate, period = unpack('<i8i8', args, numbers)
  local function is_valid(record) return record.a < min(MAX_TIME, record.expires) end
  if rate == 0 or reported.a > now or not is_valid(reported) then return end
  if own and not is_valid(own) then own = nil end
  local instant = max(now, own and own.a or 0)
  local function at_instant(record)
    local part = (instant - record.a) % period
    return instant - part, record.b - (instant - record.a - part) / period * rate, record.c
  end
  local start, count, refunded = at_instant(reported)
  if count <= 0 then return end
  local expires = reported.expires
  if own then
    local own_start, own_count, own_refunded = at_instant(own)
    expires = max(expires, own.expires)
    if own_count > 0 then
      start, count, refunded = max(start, own_start), max(count, own_count), max(refunded, own_refunded)
    end
  end
  local gone = min(start + math.ceil(count / rate) * period, EXACT - 1)
  if refunded == 0 or refunded >= EXACT - 1 or expires < gone then expires = gone end
  return start, count, refunded, '', expires
end
