-- Token bucket. numbers: burst, debt, units per token, refill (units that come back), every (how often), start.
-- state: units used at `last`, last, and the units per token of that time.

-- amount * units / per and whether that was rounded down, below 2^53: long multiplication bit by bit, since the
-- product itself is not exact in a double.
local function rescale(amount, units, per)
  if amount <= 0 or per <= 0 then return 0, false end
  local whole, part = floor(amount / per), amount % per
  if whole > (EXACT - 1) / units then return EXACT - 1, false end
  local quotient, rest = 0, 0
  for bit = 52, 0, -1 do
    quotient, rest = quotient * 2, rest * 2
    if rest >= per then quotient, rest = quotient + 1, rest - per end
    if floor(units / 2^bit) % 2 == 1 then
      if rest >= per - part then
        quotient, rest = quotient + 1, rest - (per - part)
      else
        rest = rest + part
      end
    end
  end
  return min(whole * units + quotient, EXACT - 1), rest > 0
end

local function token_bucket(at, cost, used, last, old_units)
  local burst, debt, units, refill, every, epoch = unpack('<i8i8i8i8i8i8', args, at)
  if last and last >= latest then last = nil end
  local instant = last and max(now, last) or now
  if last and refill > 0 then
    if old_units ~= units then
      local inexact
      used, inexact = rescale(used, units, old_units)
      if inexact then used = min(used + 1, EXACT - 1) end
    end
    used = used - refill * floor((instant - last) / every)
    last = instant - (instant - last) % every
  end
  if not last or refill == 0 or used <= 0 then
    used, last = 0, epoch == 1 and instant - instant % every or instant
  end
  if used > min(burst, burst + debt - cost) * units then return end
  used = used + cost * units
  return pack('<i8i8i8', used, last, units), '', min(last + ceil(used / max(refill, 1)) * every, EXACT - 1)
end

local function token_bucket_refund(at, cost, receipt, used, last, old_units)
  local _, _, units, refill, every = unpack('<i8i8i8i8i8', args, at)
  local then_used, then_last = unpack('<i8i8', ARGV[2], receipt)
  local left = max(0, then_used - refill * floor((max(now, last) - then_last) / every))
  local given = min(cost * units, left)
  if old_units ~= units then given = rescale(given, old_units, units) end
  return pack('<i8i8i8', max(0, used - given), last, old_units), ''
end
