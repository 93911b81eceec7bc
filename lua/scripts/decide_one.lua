-- Decides a call of one charge, which is enforced, and charges it.
-- KEYS[1]
-- ARGV[1]   now, slack_ms, patience, cost; how many limits; the policy
-- returns   'C', now, when the key was created, the records of the policy's limits without their cells: it was charged
--           'O', now: a calendar does not reach now, and nothing was written
--           'F', now, the key's value as found: nothing was written
--           'W', now, when the key was created, its value as found: it was locked
local unpack, pack, args = struct.unpack, struct.pack, ARGV[1]
local now, slack_ms, patience, cost, limit_count, part = unpack('<i8i8i8i8B', args)
--[[ prelude ]]
local key, shadow, always = KEYS[1], false, false
--[[ charge ]]
if admits and not locked then
  if ttl then
    call('SET', key, records, 'PX', ttl)
  else
    call('SET', key, records, 'KEEPTTL')
  end
  return 'C' .. pack('<i8', now) .. charged
end
if locking then
  call('SET', key, locking, 'PX', locking_ttl)
  return 'W' .. pack('<i8', now) .. string.sub(locking, 1, HEAD) .. found
end
return 'F' .. pack('<i8', now) .. found
