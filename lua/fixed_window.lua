-- Fixed window. numbers: limit, period, start (0 first, 1 epoch, 2 calendar), a calendar's bounds around now.
-- state: start, finish, count.
local function fixed_window(at, cost, start, finish, count)
  local limit, period, kind = unpack('<i8i8i8', args, at)
  local first, middle, last
  if kind == 2 then first, middle, last = unpack('<i8i8i8', args, at + 24) end
  local length = start and finish - start
  local ours = start and (kind == 2 and length > 0 and length <= last - first or length == period)
  if not ours or start >= latest then start = nil end
  local instant = start and max(now, start) or now
  if not start or instant >= finish then
    if kind == 2 and (instant < first or instant >= last) then return '' end
    count, start = 0, kind == 1 and instant - instant % period or instant
    if kind == 2 then start = instant < middle and first or middle end
    finish = kind == 2 and (instant < middle and middle or last) or start + period
  end
  if cost > limit - count then return end
  return pack('<i8i8i8', start, finish, count + cost), '', finish
end

local function fixed_window_refund(at, cost, receipt, start, finish, count)
  local charged = unpack('<i8', ARGV[2], receipt)
  if start ~= charged then return end
  return pack('<i8i8i8', start, finish, max(0, count - cost)), ''
end
