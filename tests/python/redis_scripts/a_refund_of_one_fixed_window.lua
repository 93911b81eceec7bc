-- SHA1      76536570b74a1c1824b461b3b3dcaede1cbb8f51
-- KEYS[1]   ol1:example:user:1
-- ARGV[1]   85 bytes, little-endian:
--           now -1
--           for ol1:example:user:1: policy at 27, number of limits 1, cost 1, role 0
--           fixed_window of 10 per 1 minute: algorithm 1, tag acf940ca49794e19, then 10, 60000000, 0, 0, 0, 0
--           penalty: levels 0, extend 0, then nothing
-- ARGV[2]   32 bytes, little-endian:
--           zeros here: per key when it was created, and per limit its state right after the charge
--
-- Gives back what a call has charged, as far as it still counts.
-- KEYS      one per charge
-- ARGV[1]   now; per charge where its policy begins, how many limits it has, the cost and the role; the policies
-- ARGV[2]   per charge when its key was created, and per limit the state right after the charge
-- returns   nothing
local unpack, pack, args = struct.unpack, struct.pack, ARGV[1]
local now, next_charge = unpack('<i8', args)
-- prelude: the names that all fragments share, besides those they list.
-- takes   unpack, pack    of Redis' struct library
--         args            ARGV[1], the arguments of the call
--         now             -1 for the server's clock
-- gives   now, injected   the time of the call in us, and whether it is that of the caller's clock
--         MAX_TIME        times are below it
--         EXACT           integers from 0 to below it are exact in a double; no other number counts
--         HEAD, RECORD, STATE, CELL   bytes of a value's time of creation, a record's head, its state and each of its cells
--         LIMIT           bytes of a limit in args: its algorithm, its tag and six numbers
local injected = now >= 0
if not injected then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local MAX_TIME, EXACT = 2^53 - 2^50, 2^53
local HEAD, RECORD, STATE, CELL, LIMIT = 8, 20, 24, 16, 57
local sub, floor, min, max = string.sub, math.floor, math.min, math.max

-- What algorithms with a history share: takes the cost off the cell that was charged, which goes when it is empty.
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

-- What buckets share: what is given back of a charge, after which so much was used, and since which so much has drained. At
-- worst the charge drained first. At best it drained last, but nothing that was refunded since drained before it.
local function bucket_refund(charged, used, drained, refunded, then_refunded)
  local at_worst = max(0, charged - drained)
  if max(refunded, then_refunded) >= EXACT - 1 then return at_worst end
  return max(at_worst, min(charged, used - drained - max(0, refunded - then_refunded)))
end

local function fixed_window_refund(numbers, cost, receipt, start, finish, count)
  local charged = unpack('<i8', ARGV[2], receipt)
  if start ~= charged then return end
  return pack('<i8i8i8', start, finish, max(0, count - cost)), ''
end

local function sliding_window_refund(numbers, cost, receipt, newest, count, total, value, cell, stop)
  return history_refund(cost, unpack('<i8', ARGV[2], receipt), newest, count, total, value, cell, stop)
end

local function token_bucket_refund(numbers, cost, receipt, used, last, refunded, value, cell, stop)
  local _, _, units, refill, every = unpack('<i8i8i8i8i8', args, numbers)
  local then_used, then_last, then_refunded = unpack('<i8i8i8', ARGV[2], receipt)
  local old_units, sum = refunded, refunded
  if cell < stop then old_units = -unpack('<i8', value, cell + 8) end
  if old_units ~= units then sum = EXACT - 1 end
  local drained = refill * floor(max(0, max(now, last) - then_last) / every)
  local given = bucket_refund(cost * units, then_used, drained, sum, then_refunded)
  if old_units ~= units then
    local amount, units, per = given, old_units <= refunded and old_units or 0, units
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
    given = rescaled
  end
  if given == 0 then return end
  return pack('<i8i8i8', max(0, used - given), last, min(refunded + given, EXACT - 1)), pack('<i8i8', 0, -old_units)
end

local function sliding_log_refund(numbers, cost, receipt, newest, count, total, value, cell, stop)
  return history_refund(cost, unpack('<i8', ARGV[2], receipt), newest, count, total, value, cell, stop)
end

local function sliding_window_counter_refund(numbers, cost, receipt, start, previous, current)
  local period, charged = unpack('<i8', args, numbers + 8), unpack('<i8', ARGV[2], receipt)
  if start == charged then
    current = max(0, current - cost)
  elseif start == charged + period then
    previous = max(0, previous - cost)
  else
    return
  end
  return pack('<i8i8i8', start, previous, current), ''
end

local function leaky_bucket_refund(numbers, cost, receipt, start, count, refunded)
  local rate, period = unpack('<i8i8', args, numbers)
  local then_start, then_count, then_refunded = unpack('<i8i8i8', ARGV[2], receipt)
  local drained = floor(max(0, max(now, start) - then_start) / period) * rate
  local given = bucket_refund(cost, then_count, drained, refunded, then_refunded)
  return pack('<i8i8i8', start, max(0, count - given), min(refunded + given, EXACT - 1)), ''
end

local refund_of = {fixed_window_refund, sliding_window_refund, token_bucket_refund, sliding_log_refund, sliding_window_counter_refund, leaky_bucket_refund}
local receipt = 1
for k = 1, #KEYS do
  local part, limit_count, cost, role
  part, limit_count, cost, role, next_charge = unpack('<i8Bi8B', args, next_charge)
  -- get_value: reads a key.
  -- takes   k
  -- gives   found       the value of KEYS[k]; '' if there is none, or none that this library can have written
  --         MAX_VALUE   the longest value that counts: eight times the most that one call may cover
  local MAX_VALUE = 2^23
  local found = redis.pcall('GET', KEYS[k]) or ''
  local length = #found
  if length == 0 and found ~= '' then -- an error, which is a table without a length
    if string.sub(found.err, 1, 9) ~= 'WRONGTYPE' then return found end
    found = ''
  elseif length > MAX_VALUE then
    found = ''
  end
  -- parse_value: checks a key's value, and reads its first record, which mostly is the one that is needed.
  -- takes   found
  -- gives   value   what was found; '' unless it is exactly a time of creation and records
  --         stop    the place behind the value
  --         created_at   when the key was created, by the server's clock
  --         place   where the record that was read begins
  --         tag, size, expires, a, b, c   its head and its state; tag is nil if there is none that can hold a state
  local value, stop, place, created_at, tag, size, expires, a, b, c = found, #found + 1, HEAD + 1
  if place + RECORD + STATE <= stop then -- numbers are read unsigned: negative ones are then too large
    created_at, tag, size, expires, a, b, c = unpack('<c8c8I4I8I8I8I8', value)
    place = place + RECORD + size
  end
  while place + RECORD <= stop do place = place + RECORD + unpack('<I4', value, place + 8) end
  if place ~= stop then value, stop, created_at, tag = '', 1, nil, nil end
  place = HEAD + 1
  if stop == 1 then
    local time = injected and redis.call('TIME')
    created_at = pack('<i8', time and time[1] * 1000000 + time[2] or now)
  elseif not created_at then
    created_at = string.sub(value, 1, HEAD)
  end
  local same_key = stop > 1 and created_at == sub(ARGV[2], receipt, receipt + HEAD - 1)
  receipt = receipt + HEAD
  for at = part, part + LIMIT * limit_count - 1, LIMIT do
    local algorithm, own, numbers = unpack('<Bc8', args, at)
    local first = same_key and HEAD + 1 or #value + 1
    while first <= #value and sub(value, first, first + 7) ~= own do
      first = first + RECORD + unpack('<I4', value, first + 8)
    end
    if first <= #value then
      local size, expires = unpack('<I4i8', value, first + 8)
      local last, a, b, c = first + RECORD + size, -1, -1, -1
      if expires > now and expires < EXACT and size >= STATE and (size - STATE) % CELL == 0 then
        a, b, c = unpack('<i8i8i8', value, first + RECORD)
      end
      local state, cells
      if min(a, b, c) >= 0 and max(a, b, c) < EXACT then
        state, cells = refund_of[algorithm](numbers, cost, receipt, a, b, c, value, first + RECORD + STATE, last)
      end
      if state then
        local head = own .. pack('<I4i8', #state + #cells, expires)
        value = sub(value, 1, first - 1) .. head .. state .. cells .. sub(value, last)
      end
    end
    receipt = receipt + STATE
  end
  if value ~= found and value ~= '' then redis.call('SET', KEYS[k], value, 'KEEPTTL') end
end
