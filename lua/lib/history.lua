-- What is given back to a history: taken off the cell that was charged, which goes when it is emptied.
local function history_refund(cost, charged, newest, count, total, value, cell, stop)
  if newest == charged then
    local given = min(cost, count)
    return pack('<i8i8i8', newest, count - given, total - given), sub(value, cell, stop - 1)
  end
  for place = cell, stop - 1, CELL do
    local at, counted = unpack('<i8i8', value, place)
    if at == charged then
      local given = min(cost, counted)
      local left = counted > given and pack('<i8i8', at, counted - given) or ''
      local cells = sub(value, cell, place - 1) .. left .. sub(value, place + CELL, stop - 1)
      return pack('<i8i8i8', newest, count, total - given), cells
    end
  end
end
