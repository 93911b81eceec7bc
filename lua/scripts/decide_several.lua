-- Decides a call of several charges, or of one that is not enforced, and charges it, all or nothing: everything is
-- checked before anything is written.
-- KEYS      one per charge
-- ARGV[1]   slack_ms, patience, now; per charge the number of its policy, where that policy's part begins, its
--           cost and its role; per policy and limit its tag and numbers, then the numbers of its penalty
-- returns   'C', now; per charge its key's birth, per limit 12 bytes of its record's head and its state: every charge
--           was written
--           'O', now: a calendar does not reach now, and nothing was written
--           'F', now; per key its value as found, and before each but the last its size: nothing was written
--           'W', now, per key its birth; the values as for 'F': something was written, or locked
local unpack, pack, args = struct.unpack, struct.pack, ARGV[1]
local slack_ms, patience, now = unpack('<i8i8i8', args)
--[[ prelude ]]
local ENFORCE, SHADOW, ON_REFUSAL = 0, 1, 2
local values, writes, ttls, births, reply = {false, false}, {false, false}, {false, false}, '', ''
local passes, fits, complete, any_locked, meta_locked, meta, locks = true, true, true, false, false

for k = 1, #KEYS do
  local number, part, cost, role = unpack('<i8i8i8i8', args, 32 * k - 7)
  local shadow = role == SHADOW
  --[[ charge ]]
  values[k], births, writes[k] = found, births .. birth, false
  if locked or not admits then
    if role == ENFORCE then passes, any_locked = false, any_locked or locked end
    if role == ON_REFUSAL then fits, meta_locked = false, meta_locked or locked end
    if locking then
      locks = locks or {}
      locks[k] = {value = locking, ttl = locking_ttl, locked = locked}
    end
  elseif cost > 0 then
    writes[k], ttls[k] = records, ttl or false
  end
  if role == ON_REFUSAL then
    meta = meta or {}
    meta[k] = true
  end
  complete, reply = complete and writes[k] and not meta, reply .. charged
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
if charges and passes and complete then return 'C' .. pack('<i8', now) .. reply end
for k, lock in pairs(not (passes and fits) and locks or {}) do
  if lock.locked == any_locked then
    written = true
    redis.call('SET', KEYS[k], lock.value, 'PX', lock.ttl)
  end
end

local answer = (written and 'W' or 'F') .. pack('<i8', now) .. (written and births or '')
for k = 1, #KEYS - 1 do answer = answer .. pack('<I4', #values[k]) .. values[k] end
return answer .. values[#KEYS]
