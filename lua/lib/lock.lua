-- Locks keys by hand, whatever they did: the level stays, and for how long it is remembered.
-- KEYS      one per identifier
-- ARGV[1]   now, slack_ms, patience, duration
-- returns   the number of keys
local duration = unpack('<i8', args, 25)
for k = 1, #KEYS do
  local _, value, problem = fetch(KEYS[k])
  if problem then return problem end
  local lock = lock_of(value)
  local instant, taken = lock.instant or now, floor((lock.mark or 0) / 2)
  local memory = taken > 0 and max(0, lock.expires - lock.finish) or 0
  local changed, ttl = with_lock(value, instant, min(instant + duration, EXACT - 1), 2 * taken + 1, memory)
  redis.call('SET', KEYS[k], changed, 'PX', ttl)
end
return #KEYS
