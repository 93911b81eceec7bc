-- Gives back what a call has charged, as far as it still counts.
-- KEYS      one per charge
-- ARGV[1]   now, whether to answer (1), and only of keys not restored since (2), or both (3); per charge where its policy begins, how many limits it has, the cost and the role; the
--           policies
-- ARGV[2]   per charge when its key was created, and per limit the state right after the charge
-- ARGV[3]   as ARGV[2] of decide_several
-- returns   nothing; other keys as decide_several; or, if asked to answer, as `read`, what the keys hold then
local unpack, pack, args = struct.unpack, struct.pack, ARGV[1]
local now, options, next_charge = unpack('<i8B', args)
--[[ prelude ]]
local incarnations = ARGV[3]
--[[ check_incarnations ]]
local sub, floor, min, max = string.sub, math.floor, math.min, math.max

-- What algorithms with a history share: takes the cost off the cell that was charged, which goes when it is empty.
local function history_refund(cost, charged, newest, count, total, value, cell, stop)
  if total >= EXACT - 1 then return end
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

-- What buckets share: what is refunded of a charge, after which so much was used, and since which so much has drained. At
-- worst the charge drained first. At best it drained last, but nothing that was refunded since drained before it.
local function bucket_refund(charged, used, drained, refunded, then_refunded)
  local at_worst = max(0, charged - drained)
  if max(refunded, then_refunded) >= EXACT - 1 then return at_worst end
  return max(at_worst, min(charged, used - drained - max(0, refunded - then_refunded)))
end

-- The sum of a bucket's holds in value from cell to before stop (keep_held).
local function held_in(value, cell, stop, last)
  local held, next_till = 0, last + 15000001
  for place = stop - CELL, cell, -CELL do
    local till, amount = unpack('<i8i8', value, place)
    if till > last and till < next_till and amount > 0 and amount < EXACT then
      held, next_till = min(held + amount, EXACT - 1), till
    end
  end
  return held
end

-- Each refunds nothing of a count that has saturated, since nobody knows any more what that is made of.
--[[ refunds ]]
local receipt, answer = 1, '\8' .. pack('<i8', now)
for k = 1, #KEYS do
  local key, part, limit_count, cost, role = KEYS[k]
  part, limit_count, cost, role, next_charge = unpack('<i8Bi8B', args, next_charge)
  --[[ get_value ]]
  --[[ parse_value ]]
  local low, high = unpack('<I4I4', created_at)
  local charged_low, charged_high = unpack('<I4I4', ARGV[2], receipt)
  local same_key = value ~= '' and low == charged_low and (high - charged_high) % (options < 2 and 2^21 or 2^32) == 0
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
  if value ~= found and value ~= '' then call('SET', key, value, 'KEEPTTL') end
  if options % 2 == 1 then answer = answer .. (k < #KEYS and pack('<I4', #value) or '') .. value end
end
if options % 2 == 1 then return answer end
