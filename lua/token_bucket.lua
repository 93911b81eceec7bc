-- Token bucket, refilled continuously. numbers: burst, units per token, refill (units per microsecond).
-- state: units used at `last`, last, and the units per token of that time.

-- used * units / old_units, rounded up, below 2^53: long multiplication bit by bit, since the product
-- itself is not exact in a double.
local function rescale(used, old_units, units)
  if used <= 0 or old_units <= 0 then return 0 end
  local whole, part = floor(used / old_units), used % old_units
  if whole > (EXACT - 1) / units then return EXACT - 1 end
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
  return min(whole * units + quotient + (rest > 0 and 1 or 0), EXACT - 1)
end

local function token_bucket(at, cost, used, last, old_units)
  local burst, units, refill = unpack('<i8i8i8', args, at)
  if last and last >= MAX_TIME then used, last = nil, nil end
  local instant = last and max(now, last) or now
  if used and old_units ~= units then used = rescale(used, old_units, units) end
  used = used and refill > 0 and max(0, used - refill * (instant - last)) or 0
  if used > (burst - cost) * units then return end
  used = used + cost * units
  local expires = refill > 0 and instant + ceil(used / refill) or instant
  return pack('<i8i8i8', used, instant, units), '', min(expires, EXACT - 1)
end
