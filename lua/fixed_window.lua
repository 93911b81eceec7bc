-- Fixed window. numbers: limit, period, start (0 first, 1 epoch). state: start, end, count.
local function fixed_window(at, value, first, size, cost)
  local limit, period, epoch = unpack('<i8i8i8', args, at)
  local start, stop, count = 0, 0, 0
  if size > 0 then start, stop, count = unpack('<i8i8i8', value, first) end
  local instant = max(now, start)
  if instant >= stop then
    start = epoch == 1 and instant - instant % period or instant
    stop, count = start + period, 0
  end
  if cost > limit - count then return end
  return pack('<i8i8i8', start, stop, count + cost), '', stop
end
