-- Decides a call of one charge, which is enforced, and charges it.
-- KEYS[1]
-- ARGV[1]   now, slack_ms, patience, cost; how many limits; the policy. A negative slack_ms asks for the whole value
-- ARGV[2]   when the key was created that the caller remembers; or nothing
-- returns   flags, now; then, by the flags,
--           other keys: when the key was created (0: there is none): it is another one, and nothing was done
--           charged: when the key was created, and the records of the policy's limits without their cells
--           charged, values: the key's value as charged, if it was asked for and has at most 4096 bytes
--           no flag: a calendar does not reach now, and nothing was written
--           found: the key's value as found: nothing was written
--           written, found: when the key was created, its value as found: it was locked
--           written, found, values: the same, and its value as locked, if it was asked for
local unpack, pack, args = struct.unpack, struct.pack, ARGV[1]
local now, slack_ms, patience, cost, limit_count, part = unpack('<i8i8i8i8B', args)
--[[ prelude ]]
--[[ whole_or_not ]]
local key, needed, shadow, always, term, extra = KEYS[1], cost, false, false
local incarnations = ARGV[2]
--[[ get_value ]]
--[[ check_incarnation ]]
--[[ charge ]]
if admits and not locked then
  --[[ write_records ]]
  if whole and #records <= 4096 then return '\48' .. pack('<i8', now) .. records end
  return '\16' .. pack('<i8', now) .. charged
end
--[[ refuse ]]
