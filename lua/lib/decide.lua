-- Decides a call and charges it, all or nothing: everything is checked before anything is written.
-- KEYS      one per charge
-- ARGV[1]   now, slack_ms; per charge the number of its policy, its cost and its role; per policy and limit
--           its tag and numbers
-- returns   every charge written: a string of now, then per charge its key's birth and the states as charged
--           else: {now, 1 if anything was written else 0, births if so; the value of each key as found or nil}
local ENFORCE, SHADOW, ON_REFUSAL = 0, 1, 2
local values = {}

local function fetch(k)
  local failure
  values[k], failure = get(KEYS[k])
  return failure
end

local function as_found(head)
  local reply = {head}
  for k = 1, #KEYS do
    if values[k] == nil then
      local failure = fetch(k)
      if failure then return failure end
    end
    reply[k + 1] = values[k]
  end
  return reply
end

-- Where each policy's numbers begin, and the set of its tags.
local cursor = 17 + 24 * #KEYS
for _, policy in ipairs(policies) do
  policy.at, policy.tags = cursor, {}
  for j = 1, #policy do
    policy.tags[sub(args, cursor, cursor + 7)] = true
    cursor = cursor + policy.strides[j]
  end
end

-- The record of a tag: where it begins, its size and expiry, and whether it stood where expected.
local function record_at(value, at, tag)
  local expected = sub(value, at, at + 7) == tag
  if not expected then at = search(value, tag) end
  if not at then return 1, 0, 0, false end
  local size, expires = unpack('<I4i8', value, at + 8)
  return at + RECORD, size, expires, expected
end

-- The three numbers of a state; nothing when they cannot be any.
local function state_at(value, first)
  local a, b, c = unpack('<i8i8i8', value, first)
  if min(a, b, c) >= 0 and max(a, b, c) < EXACT then return a, b, c end
end

-- The value of a key after its charge, the states alone, and the expiries of both values; nil: refused.
local function charged(policy, value, cost)
  local at, next_at, records, states = policy.at, HEAD + 1, '', ''
  local in_place, old_expiry, new_expiry = true, 0, 0
  for j = 1, #policy do
    local tag = sub(args, at, at + 7)
    local first, size, expires, expected = record_at(value, next_at, tag)
    if expected then next_at = first + size else in_place = false end
    old_expiry = max(old_expiry, expires)
    local a, b, c
    if expires > now and size >= STATE and (size - STATE) % CELL == 0 then
      a, b, c = state_at(value, first)
    end
    local state, cells, until_then = policy[j](at + 8, cost, a, b, c, value, first + STATE, first + size)
    if not state then return end
    records = records .. tag .. pack('<I4i8', #state + #cells, until_then) .. state .. cells
    states, new_expiry, at = states .. state, max(new_expiry, until_then), at + policy.strides[j]
  end
  if not in_place or next_at <= #value then
    local kept, latest = others(value, policy.tags)
    records, new_expiry = records .. kept, max(new_expiry, latest)
    if not in_place then old_expiry = 0 end
  end
  return records, states, old_expiry, new_expiry
end

local roles, costs, births, states, writes, ttls = {}, {}, {}, {}, {}, {}
local refused, has_meta = false, false
for k = 1, #KEYS do
  local number
  number, costs[k], roles[k] = unpack('<i8i8i8', args, 24 * k - 7)
  has_meta = has_meta or roles[k] == ON_REFUSAL
  local failure = fetch(k)
  if failure then return failure end
  local value = values[k] or ''
  local records, after, old_expiry, new_expiry = charged(policies[number], value, costs[k])
  births[k] = values[k] and sub(value, 1, HEAD) or pack('<i8', injected and server_now() or now)
  if records then
    states[k], writes[k] = after, births[k] .. records
    ttls[k] = new_expiry > old_expiry and ceil((new_expiry - now) / 1000) + slack_ms
  elseif roles[k] == ON_REFUSAL then
    return as_found(pack('<i8i8', now, 0))
  elseif roles[k] == ENFORCE then
    refused = true
  end
end
if refused and not has_meta then return as_found(pack('<i8i8', now, 0)) end

local complete = true
for k = 1, #KEYS do
  if not writes[k] or costs[k] == 0 or refused ~= (roles[k] == ON_REFUSAL) then
    complete = false
  elseif ttls[k] then
    redis.call('SET', KEYS[k], writes[k], 'PX', ttls[k])
  else
    redis.call('SET', KEYS[k], writes[k], 'KEEPTTL')
  end
end

if not complete then return as_found(pack('<i8i8', now, 1) .. table.concat(births)) end
local reply = pack('<i8', now)
for k = 1, #KEYS do reply = reply .. births[k] .. states[k] end
return reply
