-- Locks keys by hand, whatever they did: the level stays, and for how long it is remembered.
-- KEYS      one per identifier
-- ARGV[1]   slack_ms, patience, now, duration
-- returns   the number of keys
local now, duration = unpack('<i8i8', args, NOW_AT)
--[[ clock ]]
for k = 1, #KEYS do
--[[ fetch ]]
--[[ birth ]]
--[[ locked ]]
  local taken = instant and math.floor(mark / 2) or 0
  local memory = taken > 0 and math.max(0, forgotten_at - finish) or 0
  local locking, locking_ttl
  instant = instant or now
  finish, mark = math.min(instant + duration, EXACT - 1), 2 * taken + 1
--[[ relocked ]]
  redis.call('SET', KEYS[k], locking, 'PX', locking_ttl)
end
return #KEYS
