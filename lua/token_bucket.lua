-- Token bucket. numbers: burst, debt, units per token, refill (units that come back), every (how often), start.
-- state: units used at `last`, last, and the units per token of that time.
local burst, debt, units, used, last, old_units = x, y, z, a, b, c
local refill, every, epoch = unpack('<i8i8i8', args, others)
if last and last >= latest then last = nil end
local instant = last and last > now and last or now
if last and refill > 0 then
  if old_units ~= units then
    local amount, per = used, old_units
    --[[ rescale ]]
    used = inexact and math.min(rescaled + 1, EXACT - 1) or rescaled
  end
  local part = (instant - last) % every
  used = used - refill * ((instant - last - part) / every)
  last = instant - part
end
if not last or refill == 0 or used <= 0 then
  used, last = 0, epoch == 1 and instant - instant % every or instant
end
local room = debt < cost and burst + debt - cost or burst
admits = used <= room * units
if admits then
  used = used + cost * units
  local full = last + math.ceil(used / (refill > 0 and refill or 1)) * every
  a, b, c, expiry = used, last, units, full < EXACT and full or EXACT - 1
end

local function token_bucket_refund(numbers, cost, receipt, used, last, old_units)
  local _, _, units, refill, every = unpack('<i8i8i8i8i8', args, numbers)
  local then_used, then_last = unpack('<i8i8', ARGV[2], receipt)
  local left = max(0, then_used - refill * floor((max(now, last) - then_last) / every))
  local given = min(cost * units, left)
  if old_units ~= units then
    local amount, units, per = given, old_units, units
    --[[ rescale ]]
    given = rescaled
  end
  return pack('<i8i8i8', max(0, used - given), last, old_units), ''
end
