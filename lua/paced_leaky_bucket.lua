-- Leaky bucket with a burst. numbers and state: those of a token bucket that refills continuously, of burst and capacity
-- together; the capacity is in the place of the debt.
local waiting = y
y = 0
--[[ token_bucket ]]
if admits and not always then
  local over = used - (burst - waiting - (needed - cost)) * units
  admits = over <= 0 or last + math.ceil(over / refill) - instant <= patience
end

local function paced_leaky_bucket_refund(...)
  return token_bucket_refund(...)
end

local function paced_leaky_bucket_merged(...)
  return token_bucket_merged(...)
end
