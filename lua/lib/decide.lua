-- Decides a call and charges it, all or nothing: everything is checked before anything is written.
-- KEYS      one per charge
-- ARGV[1]   now, slack_ms, patience; per charge the number of its policy, where that policy's part begins, its
--           cost and its role; per policy and limit its tag and numbers, then the numbers of its penalty
-- returns   every charge written: a string of now, then per charge its key's birth and the states as charged
--           a calendar does not reach now: a string of now alone
--           else: {now, 1 if anything was written else 0, births if so; the value of each key as found or nil}
local ENFORCE, SHADOW, ON_REFUSAL = 0, 1, 2
local values, writes, ttls, births, reply = {false}, {false}, {false}, '', pack('<i8', now)
local complete, refused, locked, sanctions, meta = true, {}, {}, false, false

for k = 1, #KEYS do
  local number, part, cost, role = unpack('<i8i8i8i8', args, 32 * k - 7)
  local policy, found, value, problem = policies[number], fetch(KEYS[k])
  if problem then return problem end
  values[k] = found
  local birth, stop = birth_of(value), #value + 1

  -- Records stand in the policy's order, or else they are searched for.
  local at, place, records, states, old_expiry, new_expiry = part, HEAD + 1, '', '', 0, 0
  for j = 1, #policy, 2 do
    local tag, first, size, expires, a, b, c = sub(args, at, at + 7), place, 0, 0
    if sub(value, place, place + 7) ~= tag then first = find(value, tag) or stop end
    if first < stop then
      size, expires = unpack('<I4i8', value, first + 8)
      if first == place then place = first + RECORD + size end
      if expires > now and size >= STATE and (size - STATE) % CELL == 0 then
        a, b, c = unpack('<i8i8i8', value, first + RECORD)
        if min(a, b, c) < 0 or max(a, b, c) >= EXACT then a, b, c = nil, nil, nil end
      end
    end
    first = first + RECORD
    local state, cells, expiry = policy[j](at + 8, cost, a, b, c, value, first + STATE, first + size)
    if state == '' then return pack('<i8', now) end
    if not state then records = nil break end
    records = records .. tag .. pack('<I4i8', #state + #cells, expiry) .. state .. cells
    states, at = states .. state, at + policy[j + 1]
    old_expiry, new_expiry = max(old_expiry, expires), max(new_expiry, expiry)
  end

  -- Behind them a lock, and records of other limits, which are carried along until they expire.
  local lock = place < stop and lock_of(value) or NO_LOCK
  if records and not lock.holds and place < stop then
    local tags, from = {}, part
    for j = 2, #policy, 2 do tags[sub(args, from, from + 7)], from = true, from + policy[j] end
    place, old_expiry = HEAD + 1, 0
    while place < stop do
      local size, expires = unpack('<I4i8', value, place + 8)
      if expires > now and not tags[sub(value, place, place + 7)] then
        records = records .. sub(value, place, place + RECORD + size - 1)
        new_expiry = max(new_expiry, expires)
      end
      place = place + RECORD + size
    end
  end

  if lock.holds or not records then
    refused[role] = true
    locked[role] = locked[role] or lock.holds
    if policy.penalty and cost > 0 and role ~= SHADOW and patience >= EXACT then
      local changed, ttl = sanction(value, part + policy.penalty, lock)
      sanctions = sanctions or {}
      sanctions[k] = changed and {value = changed, ttl = ttl, locked = lock.holds or false}
    end
  elseif cost > 0 then
    writes[k] = birth .. records
    ttls[k] = new_expiry > old_expiry and ceil((new_expiry - now) / 1000) + slack_ms
  end
  if role == ON_REFUSAL then
    meta = meta or {}
    meta[k] = true
  end
  complete = complete and writes[k] and not meta
  births, reply = births .. birth, reply .. birth .. states
end

-- A call that passes charges all but its meta limits; one that is refused charges only those, and may lock.
local fits = not refused[ON_REFUSAL]
local passes = fits and not refused[ENFORCE]
local is_locked = locked[fits and ENFORCE or ON_REFUSAL] or false
local charges, written = fits and (passes or meta and not is_locked), false
for k = 1, charges and #KEYS or 0 do
  if writes[k] and (meta and meta[k] or false) ~= passes then
    written = true
    if ttls[k] then
      redis.call('SET', KEYS[k], writes[k], 'PX', ttls[k])
    else
      redis.call('SET', KEYS[k], writes[k], 'KEEPTTL')
    end
  end
end
if passes and complete then return reply end
for k, changed in pairs(not passes and sanctions or {}) do
  if changed and changed.locked == is_locked then
    written = true
    redis.call('SET', KEYS[k], changed.value, 'PX', changed.ttl)
  end
end

local found = {pack('<i8i8', now, written and 1 or 0) .. (written and births or '')}
for k = 1, #KEYS do found[k + 1] = values[k] end
return found
