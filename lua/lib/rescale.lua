-- rescale: amount * units / per. Long multiplication, bit by bit, since a double does not hold the product.
-- takes   amount, units, per
-- gives   rescaled   below EXACT, rounded down
--         inexact    whether it was
local rescaled, inexact = 0, false
if amount > 0 and per > 0 then
  local whole, part = math.floor(amount / per), amount % per
  local quotient, rest = 0, 0
  for bit = 52, 0, -1 do
    quotient, rest = quotient * 2, rest * 2
    if rest >= per then quotient, rest = quotient + 1, rest - per end
    if math.floor(units / 2^bit) % 2 == 1 then
      if rest >= per - part then
        quotient, rest = quotient + 1, rest - (per - part)
      else
        rest = rest + part
      end
    end
  end
  rescaled, inexact = math.min(whole * units + quotient, EXACT - 1), rest > 0
  if whole > (EXACT - 1) / units then rescaled, inexact = EXACT - 1, false end
end
