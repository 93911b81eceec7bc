-- lock_after_refusal: what a refusal does to the lock. A violation takes the penalty's next level, of which the last
-- repeats; a hit while locked may start the lock anew. Callers who wait for their turn are never punished.
-- takes   locked, shadow, cost, limits_end, patience, slack_ms   as in charge
--         value, stop, birth
--         LOCK, lock_time, lock_finish, lock_level, lock_by_hand   of find_lock
-- gives   locking, locking_ttl   of set_lock
local levels, extends = string.byte(args, limits_end, limits_end + 1)
if levels > 0 and not shadow and cost > 0 and patience >= EXACT then
  local level = lock_time and lock_level or 0
  if locked then level = math.max(level, 1) - 1 end
  if not locked or extends == 1 and lock_by_hand == 0 then
    level, lock_time = math.min(level, levels - 1), lock_time or now
    local length, memory = unpack('<i8i8', args, limits_end + 2 + 16 * level)
    lock_finish, lock_level, lock_by_hand = lock_time + length, level + 1, 0
    --[[ set_lock ]]
  end
end
