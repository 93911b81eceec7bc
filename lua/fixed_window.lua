-- Fixed window. numbers: limit, period, start (0 first, 1 epoch). state: start, finish, count.
local function fixed_window(at, cost, start, finish, count)
  local limit, period, epoch = unpack('<i8i8i8', args, at)
  if start and start >= MAX_TIME then start = nil end
  local instant = start and max(now, start) or now
  if not start or instant >= finish or finish - start ~= period then
    start = epoch == 1 and instant - instant % period or instant
    finish, count = start + period, 0
  end
  if cost > limit - count then return end
  return pack('<i8i8i8', start, finish, count + cost), '', finish
end
