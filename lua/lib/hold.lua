-- hold: holds the extra units of a lease until it has ended, on a grid of half a term, so that few ends differ.
-- takes   term, extra      of the lease
--         instant, refill, units   of the bucket
--         holds            as keep_held gives them
-- gives   holds, drained   with these units
local half, held, MOST = math.ceil(term / 2), 0, 8
local till, amount = math.ceil((instant + term) / half) * half, extra * units
local place = #holds + 1
while place > 1 and unpack('<i8', holds, place - CELL) >= till do place = place - CELL end
local later = string.sub(holds, place)
if later ~= '' then
  local same, there = unpack('<i8i8', later)
  if same == till then amount, later = math.min(amount + there, EXACT - 1), string.sub(later, CELL + 1) end
end
holds = string.sub(holds, 1, place - 1) .. pack('<i8i8', till, amount) .. later
if #holds > MOST * CELL then -- the two oldest become one at the later time
  local _, oldest, at, counted = unpack('<i8i8i8i8', holds)
  holds = pack('<i8i8', at, math.min(oldest + counted, EXACT - 1)) .. string.sub(holds, 2 * CELL + 1)
end
drained = 0
for from = #holds - CELL + 1, 1, -CELL do
  local at, counted = unpack('<i8i8', holds, from)
  held = math.min(held + counted, EXACT - 1)
  drained = math.max(drained, at + math.ceil(held / refill))
end
