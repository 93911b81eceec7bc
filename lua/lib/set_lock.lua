-- set_lock: puts a lock into a value. Writes nothing.
-- takes   value, stop, birth, slack_ms, LOCK, lock_time, lock_finish, lock_level, lock_by_hand
--         memory   for how long the level is remembered after the lock's finish
-- gives   locking, locking_ttl   the value with that lock; how long its key lives then
local others, last, from = '', math.min(lock_finish + memory, EXACT - 1), HEAD + 1
local lock = LOCK .. pack('<I4i8i8i8i8', STATE, last, lock_time, lock_finish, 2 * lock_level + lock_by_hand)
while from < stop do
  local size, expires = unpack('<I4i8', value, from + 8)
  if expires < EXACT and string.sub(value, from, from + 7) ~= LOCK then
    others, last = others .. string.sub(value, from, from + RECORD + size - 1), math.max(last, expires)
  end
  from = from + RECORD + size
end
locking, locking_ttl = birth .. others .. lock, math.ceil((last - now) / 1000) + slack_ms
