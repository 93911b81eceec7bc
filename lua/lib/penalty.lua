-- Locks. One more record of a key. state: start, finish, mark (twice the levels taken, plus 1 if set by hand).
local LOCK, NO_LOCK = 'penalty\0', {}

-- A lock as it is remembered: when it is judged, whether it holds, and its numbers.
local function lock_of(value)
  local place = find(value, LOCK)
  if not place then return NO_LOCK end
  local size, expires = unpack('<I4i8', value, place + 8)
  if expires <= now or size ~= STATE then return NO_LOCK end
  local start, finish, mark = unpack('<i8i8i8', value, place + RECORD)
  if min(start, finish, mark) < 0 or max(finish, mark) >= EXACT or start >= MAX_TIME then return NO_LOCK end
  local instant = max(now, start)
  return {instant = instant, holds = instant < finish, finish = finish, mark = mark, expires = expires}
end

-- A value with another lock, and how long its key lives.
local function with_lock(value, instant, finish, mark, memory)
  local records, place, last = '', HEAD + 1, min(finish + memory, EXACT - 1)
  local lock = LOCK .. pack('<I4i8i8i8i8', STATE, last, instant, finish, mark)
  while place <= #value do
    local size, expires = unpack('<I4i8', value, place + 8)
    if sub(value, place, place + 7) ~= LOCK then
      records, last = records .. sub(value, place, place + RECORD + size - 1), max(last, expires)
    end
    place = place + RECORD + size
  end
  return birth_of(value) .. records .. lock, ceil((last - now) / 1000) + slack_ms
end

-- The lock of a level, counted from 0; the last repeats. numbers at `at`: levels, whether hits extend, then the
-- length and the memory of each level.
local function locked_for(value, at, lock, level)
  level = min(level, unpack('<i8', args, at) - 1)
  local length, memory = unpack('<i8i8', args, at + 16 + 16 * level)
  local instant = lock.instant or now
  return with_lock(value, instant, instant + length, 2 * (level + 1), memory)
end

-- What a refusal does to the lock, if anything: a violation takes the next level, a hit while locked may start
-- the lock anew.
local function sanction(value, at, lock)
  local taken = floor((lock.mark or 0) / 2)
  if not lock.holds then return locked_for(value, at, lock, taken) end
  if unpack('<i8', args, at + 8) == 1 and lock.mark % 2 == 0 then return locked_for(value, at, lock, max(taken, 1) - 1) end
end
