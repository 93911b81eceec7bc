-- find_lock: reads a key's lock, which is the last record.
-- takes   value, stop
-- gives   LOCK             a lock's tag
--         lock_time        the time at which the lock is judged; nil: there is none, or it is forgotten
--         lock_finish      until when it holds
--         lock_level       how many levels of the penalty it has taken
--         lock_by_hand     1 if somebody set it by hand, else 0
--         lock_forgotten   from when on its level no longer matters
local LOCK = 'penalty\0'
local lock_time, lock_finish, lock_level, lock_by_hand, lock_forgotten
if string.sub(value, -RECORD - STATE, 7 - RECORD - STATE) == LOCK then
  local size, start, mark
  size, lock_forgotten, start, lock_finish, mark = unpack('<I4i8i8i8i8', value, stop - STATE - 12)
  lock_level, lock_by_hand = math.floor(mark / 2), mark % 2
  local ours = size == STATE and math.min(start, lock_finish, mark) >= 0 and math.max(lock_forgotten, mark) < 2^53
  ours = ours and lock_finish <= lock_forgotten and start < math.min(MAX_TIME, lock_forgotten)
  lock_time = ours and lock_forgotten > now and math.max(now, start) or nil
end
