-- Token bucket, refilled continuously. numbers: burst, units per token, refill (units per microsecond).
-- state: units used at `last`, last, and the units per token of that time.

-- used * units / old_units, rounded up, below 2^53: long multiplication bit by bit, since the product
-- itself is not exact in a double.
local function rescale(used, old_units, units)
  if used <= 0 or old_units <= 0 then return 0 end
  local whole, part = floor(used / old_units), used % old_units
  if whole > (2^53 - 1) / units then return 2^53 - 1 end
  local quotient, rest = 0, 0
  for bit = 52, 0, -1 do
    quotient, rest = quotient * 2, rest * 2
    if rest >= old_units then quotient, rest = quotient + 1, rest - old_units end
    if floor(units / 2^bit) % 2 == 1 then
      if rest >= old_units - part then
        quotient, rest = quotient + 1, rest - (old_units - part)
      else
        rest = rest + part
      end
    end
  end
  return math.min(whole * units + quotient + (rest > 0 and 1 or 0), 2^53 - 1)
end

local function token_bucket(at, value, first, size, cost)
  local burst, units, refill = unpack('<i8i8i8', args, at)
  local used, last, old_units = 0, 0, units
  if size > 0 then used, last, old_units = unpack('<i8i8i8', value, first) end
  if old_units ~= units then used = rescale(used, old_units, units) end
  local instant = max(now, last)
  used = refill > 0 and max(0, used - refill * (instant - last)) or 0
  if used > (burst - cost) * units then return end
  used = used + cost * units
  local expires = refill > 0 and instant + ceil(used / refill) or instant
  return pack('<i8i8i8', used, instant, units), '', math.min(expires, 2^53 - 1)
end
