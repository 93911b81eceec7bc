-- Decides a call and charges it, all or nothing: everything is checked before anything is written.
-- KEYS      one per charge
-- ARGV[1]   now, slack_ms, patience; per charge the number of its policy, where that policy's part begins, its
--           cost and its role; per policy and limit its tag and numbers, then the numbers of its penalty
-- returns   every charge written: a string of now, then per charge its key's birth and the states as charged
--           a calendar does not reach now: a string of now alone
--           else: {now, 1 if anything was written else 0, births if so; the value of each key as found or nil}
-- One flat text on purpose: every closure and every table would be made anew by each call.
local ENFORCE, SHADOW, ON_REFUSAL = 0, 1, 2
local values, writes, ttls, births, reply = {false}, {false}, {false}, '', pack('<i8', now)
local passes, fits, complete, any_locked, meta_locked, meta, sanctions = true, true, true, false, false, false, false

for k = 1, #KEYS do
  local number, part, cost, role = unpack('<i8i8i8i8', args, 32 * k - 7)
  local policy = policies[number]
--[[ fetch ]]
--[[ birth ]]
  values[k] = found

  -- Records stand in the policy's order, or else they are searched for.
  local at, records, states, old_expiry, new_expiry = part, '', '', 0, 0
  place = HEAD + 1
  for j = 1, #policy, 2 do
    local tag, first, size, expires, a, b, c = sub(args, at, at + 7), place, 0, 0
    if sub(value, place, place + 7) ~= tag then
      first = HEAD + 1
      while first < stop and sub(value, first, first + 7) ~= tag do
        first = first + RECORD + unpack('<I4', value, first + 8)
      end
    end
    if first < stop then
      size, expires = unpack('<I4i8', value, first + 8)
      if first == place then place = first + RECORD + size end
      if expires > now and size >= STATE and (size - STATE) % CELL == 0 then
        latest, a, b, c = min(MAX_TIME, expires), unpack('<i8i8i8', value, first + RECORD)
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
--[[ locked ]]
  local locked = instant and instant < finish or false
  if policy.penalty and patience >= EXACT and cost > 0 and role ~= SHADOW and (locked or not records) then
    local changed, ttl = sanction(part + policy.penalty, value, birth, instant, finish, mark)
    sanctions = sanctions or {}
    sanctions[k] = changed and {value = changed, ttl = ttl, locked = locked}
  end
  if records and not locked and place < stop then
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

  if locked or not records then
    if role == ENFORCE then passes, any_locked = false, any_locked or locked end
    if role == ON_REFUSAL then fits, meta_locked = false, meta_locked or locked end
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
if not fits then any_locked = meta_locked end
local charges, written = fits and (passes or meta and not any_locked), false
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
if charges and passes and complete then return reply end
for k, changed in pairs(not (passes and fits) and sanctions or {}) do
  if changed and changed.locked == any_locked then
    written = true
    redis.call('SET', KEYS[k], changed.value, 'PX', changed.ttl)
  end
end

local answer = {pack('<i8i8', now, written and 1 or 0) .. (written and births or '')}
for k = 1, #KEYS do answer[k + 1] = values[k] end
return answer
