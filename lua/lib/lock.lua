-- Locks keys by hand, whatever they did: the level stays, and for how long it is remembered.
-- KEYS      one per identifier
-- ARGV[1]   now, slack_ms, patience, duration
-- returns   the number of keys
local duration = unpack('<i8', args, 25)
for k = 1, #KEYS do
--[[ fetch ]]
--[[ birth ]]
--[[ locked ]]
  local taken = instant and floor(mark / 2) or 0
  local memory = taken > 0 and max(0, forgotten_at - finish) or 0
  instant = instant or now
  local changed, ttl =
    with_lock(value, birth, instant, min(instant + duration, EXACT - 1), 2 * taken + 1, memory)
  redis.call('SET', KEYS[k], changed, 'PX', ttl)
end
return #KEYS
