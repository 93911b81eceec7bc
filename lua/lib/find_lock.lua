-- find_lock: reads a key's lock, which is the last record.
-- takes   value, stop
-- gives   LOCK             a lock's tag
--         lock_time        the time at which the lock is judged; nil: there is none, or it is forgotten
--         lock_finish      until when it holds
--         lock_level       how many levels of the penalty it has taken
--         lock_by_hand     1 if somebody set it by hand, else 0
--         lock_forgotten   from when on its level no longer matters
local LOCK, last = 'penalty\0', stop - RECORD - STATE
local lock_time, lock_finish, lock_level, lock_by_hand, lock_forgotten
if last > HEAD and string.sub(value, last, last + 7) == LOCK then
  local size, start, mark
  size, lock_forgotten, start, lock_finish, mark = unpack('<I4i8i8i8i8', value, last + 8)
  lock_level, lock_by_hand = math.floor(mark / 2), mark % 2
  local valid = size == STATE and math.min(start, lock_finish, mark) >= 0 and math.max(lock_forgotten, mark) < EXACT
  valid = valid and lock_finish <= lock_forgotten and start < math.min(MAX_TIME, lock_forgotten)
  lock_time = valid and lock_forgotten > now and math.max(now, start) or nil
end
