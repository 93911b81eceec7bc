-- Fixed window. numbers: limit, period, start (0 first, 1 epoch). state: start, end, count.
local function fixed_window(at, cost, start, stop, count)
  local limit, period, epoch = unpack('<i8i8i8', args, at)
  if start and start >= MAX_TIME then start = nil end
  local instant = start and max(now, start) or now
  if not start or instant >= stop then
    start = epoch == 1 and instant - instant % period or instant
    stop, count = start + period, 0
  end
  if cost > limit - count then return end
  return pack('<i8i8i8', start, stop, count + cost), '', stop
end
