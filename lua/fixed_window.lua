-- Fixed window. numbers: limit, period, start (0 first, 1 epoch, 2 calendar), a calendar's bounds around now.
-- state: start, finish, count.
local limit, period, kind, start, finish, count, low, middle, high = x, y, z, a, b, c
if kind == 2 then low, middle, high = unpack('<i8i8i8', args, others) end
if start then
  local length = finish - start
  local valid = length == period or kind == 2 and length > 0 and length <= high - low
  if not valid or start >= latest then start = nil end
end
local instant = start and start > now and start or now
if not start or instant >= finish then
  if kind == 2 then
    if instant < low or instant >= high then return '\0' .. pack('<i8', now) end
    start, finish = instant < middle and low or middle, instant < middle and middle or high
  else
    start = kind == 1 and instant - instant % period or instant
    finish = start + period
  end
  count = 0
end
admits = needed <= limit - count or always
count = count + cost
if count >= EXACT then count = EXACT - 1 end
a, b, c = start, finish, count
expiry = finish

local function fixed_window_refund(numbers, cost, receipt, start, finish, count)
  local charged = unpack('<i8', ARGV[2], receipt)
  if start ~= charged or count >= EXACT - 1 then return end
  return pack('<i8i8i8', start, finish, max(0, count - cost)), ''
end

local function fixed_window_merged(numbers, own, reported)
  local _, period, kind, low, _, high = unpack('<i8i8i8i8i8i8', args, numbers)
  local function counts(record)
    local length = record.b - record.a
    local valid = length == period or kind == 2 and length > 0 and length <= high - low
    return valid and record.a < min(MAX_TIME, record.expires) and max(now, record.a) < record.b
  end
  if reported.a > now or not counts(reported) then return end
  local start, finish, count = reported.a, reported.b, reported.c
  if own and counts(own) then
    if own.a < start or own.a == start and own.b > finish then start, finish = own.a, own.b end
    count = max(count, own.c)
  end
  return start, finish, count, '', finish
end
