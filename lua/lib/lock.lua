-- Locks keys by hand, whatever they did, or lifts their locks: the level stays, and for how long it is remembered.
-- KEYS      one per identifier
-- ARGV[1]   slack_ms, patience, now, duration (0: lift the lock, if there is one)
-- returns   the number of keys
local now, duration = unpack('<i8i8', args, NOW_AT)
--[[ clock ]]
for k = 1, #KEYS do
--[[ fetch ]]
--[[ birth ]]
--[[ locked ]]
  if instant or duration > 0 then
    local taken = instant and math.floor(mark / 2) or 0
    local memory = taken > 0 and math.max(0, forgotten_at - finish) or 0
    local locking, locking_ttl
    instant = instant or now
    finish, mark = math.min(instant + duration, EXACT - 1), 2 * taken + 1
--[[ relocked ]]
    redis.call('SET', KEYS[k], locking, 'PX', locking_ttl)
  end
end
return #KEYS
