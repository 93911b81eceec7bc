-- Decides a call and charges it, all or nothing: everything is checked before anything is written.
-- KEYS      one per charge
-- ARGV[1]   now, slack_ms; per charge the number of its policy, where that policy's part begins, its cost and
--           its role; per policy and limit its tag and numbers
-- returns   every charge written: a string of now, then per charge its key's birth and the states as charged
--           else: {now, 1 if anything was written else 0, births if so; the value of each key as found or nil}
-- One flat text on purpose: every closure and every table would be made anew by each call.
local HEAD, RECORD, STATE, CELL = 8, 20, 24, 16
local ENFORCE, ON_REFUSAL = 0, 2
local values, writes, ttls, births, reply = {false}, {false}, {false}, '', pack('<i8', now)
local passes, fits, complete, meta = true, true, true, false

for k = 1, #KEYS do
  local number, part, cost, role = unpack('<i8i8i8i8', args, 32 * k - 15)
  local policy, value = policies[number], redis.pcall('GET', KEYS[k])
  if type(value) == 'table' then
    if sub(value.err, 1, 9) ~= 'WRONGTYPE' then return value end
    value = false
  end
  values[k] = value

  -- What is not exactly a birth and records to the end is as if there were nothing.
  local place, stop = HEAD + 1, value and #value + 1 or 0
  while place + RECORD <= stop do place = place + RECORD + unpack('<I4', value, place + 8) end
  if place ~= stop then value, stop = '', 1 end
  local birth = sub(value, 1, HEAD)
  if birth == '' then
    local time = injected and redis.call('TIME')
    birth = pack('<i8', time and time[1] * 1000000 + time[2] or now)
  end

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
        a, b, c = unpack('<i8i8i8', value, first + RECORD)
        if min(a, b, c) < 0 or max(a, b, c) >= EXACT then a, b, c = nil, nil, nil end
      end
    end
    first = first + RECORD
    local state, cells, expiry = policy[j](at + 8, cost, a, b, c, value, first + STATE, first + size)
    if not state then records = nil break end
    records = records .. tag .. pack('<I4i8', #state + #cells, expiry) .. state .. cells
    states, at = states .. state, at + policy[j + 1]
    old_expiry, new_expiry = max(old_expiry, expires), max(new_expiry, expiry)
  end

  -- Records of other limits are carried along until they expire.
  if records and place < stop then
    local tags = {}
    for j = 2, #policy, 2 do tags[sub(args, part, part + 7)], part = true, part + policy[j] end
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

  if not records then
    passes, fits = passes and role ~= ENFORCE, fits and role ~= ON_REFUSAL
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

-- A call that passes charges all but its meta limits; one that is refused charges only those.
local charges = fits and (passes or meta)
for k = 1, charges and #KEYS or 0 do
  if writes[k] and (meta and meta[k] or false) ~= passes then
    if ttls[k] then
      redis.call('SET', KEYS[k], writes[k], 'PX', ttls[k])
    else
      redis.call('SET', KEYS[k], writes[k], 'KEEPTTL')
    end
  end
end
if charges and complete then return reply end

local found = {pack('<i8i8', now, charges and 1 or 0) .. (charges and births or '')}
for k = 1, #KEYS do found[k + 1] = values[k] end
return found
