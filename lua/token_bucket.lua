-- Token bucket. numbers: burst, debt, units per token, refill (units that come back), every (how often), start.
-- state: units used at `last`, last, and the sum of refunds and of holds that have passed, counted on from the units
-- per token of that time.
-- cells: where these two differ, or with holds, a note of the units, as (0, -units); then the holds, oldest first, as
-- (until, units): used does not drain below the sum of those whose `until` is still to come.
local burst, debt, units, used, last, refunded = x, y, z, a, b, c
local holds, drained = term, 0
local refill, every, epoch = unpack('<i8i8i8', args, others)
if last and last >= latest then last = nil end
local instant = last and last > now and last or now
if last and refill > 0 then
  local old_units = refunded
  if cell < cells_end then
    old_units = -unpack('<i8', value, cell + 8)
    if old_units > refunded then old_units = 0 end
  end
  if old_units ~= units then
    local amount, per = used, old_units
    --[[ rescale ]]
    used = inexact and math.min(rescaled + 1, EXACT - 1) or rescaled
    refunded = EXACT - 1
  end
  local part = (instant - last) % every
  used = used - refill * ((instant - last - part) / every)
  if cell + CELL < cells_end then
    --[[ keep_held ]]
  end
  last = instant - part
else
  refunded = units
end
if not last or refill == 0 or used <= 0 then
  used, last = 0, epoch == 1 and instant - instant % every or instant
end
local room = debt < needed and burst + debt - needed or burst
admits = used <= room * units or always
if admits then
  used = refill > 0 and used + cost * units or 0
  if used >= EXACT then used = EXACT - 1 end
  local full = refill > 0 and last + math.ceil(used / refill) * every or last
  a, b, c = used, last, refunded
  expiry = full < EXACT and full or EXACT - 1
  if holds or refunded ~= units then
    if holds == term then holds = '' end -- there are none yet
    if term and every == 1 then
      --[[ hold ]]
    end
    if refunded ~= units and refunded < EXACT - 1 and expires > expiry then expiry = expires end
    if refunded ~= units or holds ~= '' then cells = pack('<i8i8', 0, -units) .. holds end
    if drained > expiry then expiry = math.min(drained, EXACT - 1) end
  end
end

local function token_bucket_refund(numbers, cost, receipt, used, last, refunded, value, cell, stop)
  local _, _, units, refill, every = unpack('<i8i8i8i8i8', args, numbers)
  local then_used, then_last, then_refunded = unpack('<i8i8i8', ARGV[2], receipt)
  if then_used == 0 or max(used, then_used) >= EXACT - 1 then return end
  local old_units, sum = refunded, refunded
  if cell < stop then old_units = -unpack('<i8', value, cell + 8) end
  if old_units > refunded then old_units = 0 end
  if old_units ~= units then sum = EXACT - 1 end
  local cells, held = pack('<i8i8', 0, -old_units), 0
  if every == 1 and cell + CELL < stop and stop - cell <= 9 * CELL then
    cells, held = sub(value, cell, stop - 1), held_in(value, cell + CELL, stop, last)
  end
  local drained = refill * floor(max(0, max(now, last) - then_last) / every)
  -- What was held right after the charge was not there to drain: it is still held, or was counted when it had passed.
  local given = bucket_refund(min(cost * units, EXACT), then_used - held, drained, sum, then_refunded)
  if old_units ~= units then
    local amount, units, per = given, max(0, old_units), units
    --[[ rescale ]]
    given = rescaled
  end
  if held > 0 then given = min(given, max(0, used - held)) end
  if given == 0 then return end
  return pack('<i8i8i8', max(0, used - given), last, min(refunded + given, EXACT - 1)), cells
end

local function token_bucket_merged(numbers, own, reported)
  local _, _, units, refill, every = unpack('<i8i8i8i8i8', args, numbers)
  local function is_valid(record) return record.b < min(MAX_TIME, record.expires) end
  if refill == 0 or reported.b > now or not is_valid(reported) then return end
  if own and not is_valid(own) then own = nil end
  local instant = max(now, own and own.b or 0)
  local function at_instant(record)
    local used, last, refunded, value = record.a, record.b, record.c, record.cells
    local cell, cells_end, holds, drained, old_units = 1, #value + 1, '', 0, refunded
    if cell < cells_end then
      old_units = -unpack('<i8', value, cell + 8)
      if old_units > refunded then old_units = 0 end
    end
    if old_units ~= units then
      local amount, per = used, old_units
      --[[ rescale ]]
      used = inexact and min(rescaled + 1, EXACT - 1) or rescaled
      refunded = EXACT - 1
    end
    local part = (instant - last) % every
    used = used - refill * ((instant - last - part) / every)
    if cell + CELL < cells_end then
      --[[ keep_held ]]
    end
    return used, instant - part, refunded, holds
  end
  local used, last, refunded, holds = at_instant(reported)
  if used <= 0 then return end
  local expires = reported.expires
  if own then
    local own_used, own_last, own_refunded, own_holds = at_instant(own)
    expires = max(expires, own.expires)
    if own_used > 0 then
      used, last, refunded = max(used, own_used), max(last, own_last), max(refunded, own_refunded)
      holds = holds_merged(own_holds, holds)
    end
  end
  local held, drained = 0, 0
  for place = #holds - CELL + 1, 1, -CELL do
    local till, amount = unpack('<i8i8', holds, place)
    held = min(held + amount, EXACT - 1)
    drained = max(drained, till + math.ceil(held / refill))
  end
  used = max(used, held)
  local gone = min(max(last + math.ceil(used / refill) * every, drained), EXACT - 1)
  if refunded == units or refunded >= EXACT - 1 or expires < gone then expires = gone end
  local cells = (refunded ~= units or holds ~= '') and pack('<i8i8', 0, -units) .. holds or ''
  return used, last, refunded, cells, expires
end
