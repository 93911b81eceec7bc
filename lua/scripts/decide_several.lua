-- Decides a call of several charges, or of one that is not enforced, and charges it, all or nothing: everything is
-- checked before anything is written.
-- KEYS      one per charge
-- ARGV[1]   now, slack_ms, patience; per charge where its policy begins, how many limits it has, the cost and the role;
--           the policies
-- ARGV[2]   per charge when the key was created that the caller remembers, or 0; or nothing
-- returns   flags, now; then, by the flags,
--           other keys: per charge when its key was created, or 0: one is another one, and nothing was done
--           charged: per charge when its key was created, and the records of its policy's limits without their cells: every
--           charge was written
--           no flag: a calendar does not reach now, and nothing was written
--           found: per key its value as found: nothing was written
--           written, found: per key when it was created, or 0 if the charge does not pass; the values as found: something
--           was written, or locked
--           values: in place of the records of `charged`, and behind the values of `found`, per key its value as it is now,
--           if whole values were asked for and something was written
local unpack, pack, args = struct.unpack, struct.pack, ARGV[1]
local now, slack_ms, patience, next_charge = unpack('<i8i8i8', args)
--[[ prelude ]]
--[[ whole_or_not ]]
local incarnations = ARGV[2]
--[[ check_incarnations ]]
local ENFORCE, SHADOW, ON_REFUSAL, ALWAYS = 0, 1, 2, 3
local OK, OVER, LOCKED = 0, 1, 2
local enforced, refusals = OK, OK -- the worst status of the enforced charges, and of the on_refusal ones
local values, writes, ttls, parts_of, on_refusal, locks = {false, false}, {false, false}
local reply, complete = '\16' .. pack('<i8', now), true

for k = 1, #KEYS do
  local key, part, limit_count, cost, role = KEYS[k]
  part, limit_count, cost, role, next_charge = unpack('<i8Bi8B', args, next_charge)
  local needed, shadow, always, term, extra = cost, role == SHADOW, role == ALWAYS
  --[[ get_value ]]
  --[[ charge ]]
  local status = always and OK or locked and LOCKED or admits and OK or OVER
  values[k], writes[k] = found, status == OK and cost > 0 and records
  if ttl then
    ttls = ttls or {}
    ttls[k] = ttl
  elseif parts then
    parts_of = parts_of or {}
    parts_of[k] = parts
  end
  if role == ENFORCE then
    if status > enforced then enforced = status end
  elseif role == ON_REFUSAL then
    if status > refusals then refusals = status end
    on_refusal = on_refusal or {}
    on_refusal[k] = true
  end
  if locking then
    locks = locks or {}
    locks[k] = {value = locking, ttl = locking_ttl, status = status}
  end
  reply, complete = reply .. charged, complete and writes[k] and not always
end

-- A call that passes charges all but its on_refusal limits. One that is refused charges only those, and may lock.
local status = refusals == OK and enforced or refusals
local passes, counts_refusal, written = status == OK, refusals == OK and enforced == OVER, false
local now_held = whole and {}
for k = 1, #KEYS do
  local charges, lock = passes, not passes and locks and locks[k]
  if on_refusal and on_refusal[k] then charges = counts_refusal end
  if charges and writes[k] then
    written = true
    if whole then now_held[k] = writes[k] end
    local key, length, records, parts, ttl = KEYS[k], #values[k], writes[k], parts_of and parts_of[k], ttls and ttls[k]
    --[[ write_records ]]
  elseif lock and lock.status == status then
    written = true
    if whole then now_held[k] = lock.value end
    call('SET', KEYS[k], lock.value, 'PX', lock.ttl)
  end
end
if passes and complete and not on_refusal then
  if not whole then return reply end
  reply = '\48' .. pack('<i8', now)
  for k = 1, #KEYS do reply = reply .. (k < #KEYS and pack('<I4', #writes[k]) or '') .. writes[k] end
  return reply
end

whole = whole and written
local answer = (whole and '\42' or written and '\10' or '\8') .. pack('<i8', now)
for k = 1, written and #KEYS or 0 do
  answer = answer .. (writes[k] and string.sub(writes[k], 1, HEAD) or pack('<i8', 0))
end
for k = 1, #KEYS do answer = answer .. ((whole or k < #KEYS) and pack('<I4', #values[k]) or '') .. values[k] end
if whole then
  for k = 1, #KEYS do
    local held = now_held[k] or values[k]
    answer = answer .. (k < #KEYS and pack('<I4', #held) or '') .. held
  end
end
return answer
