-- keep_held: usage never drains below what a record holds for leases. Once a hold has passed, it drains on from there.
-- takes   used          what would be used had nothing been held
--         refunded, units, old_units, refill, every, last, instant   of the bucket; the record counts in old_units
--         value, cell, cells_end   the cells: the note, then the holds, oldest first
-- gives   used, refunded   with what is held, and with what has passed
--         holds, drained   the holds still to come, in units; from when on they leave nothing behind
local held, next_till = 0, last + 15000001
if every == 1 and old_units > 0 and cells_end - cell <= 9 * CELL then
  holds = ''
  for place = cells_end - CELL, cell + CELL, -CELL do
    local till, amount = unpack('<i8i8', value, place)
    if till > last and till < next_till and amount > 0 and amount < EXACT then
      next_till = till
      if old_units ~= units then
        local per = old_units
        --[[ rescale ]]
        amount = inexact and math.min(rescaled + 1, EXACT - 1) or rescaled
      end
      held = held + amount
      if held >= EXACT then held = EXACT - 1 end
      local left, gone = held, till
      if till > instant then
        holds = pack('<i8i8', till, amount) .. holds
        gone = till + math.ceil(held / refill)
      else
        left = held - refill * (instant - till)
        refunded = math.min(refunded + amount, EXACT - 1)
      end
      if left > used then used = left end
      if gone > drained then drained = gone end
    end
  end
end
