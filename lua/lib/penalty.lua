-- A value with another lock, and how long its key lives.
local function with_lock(value, birth, instant, finish, mark, memory)
  local records, place, last = '', HEAD + 1, min(finish + memory, EXACT - 1)
  local lock = LOCK .. pack('<I4i8i8i8i8', STATE, last, instant, finish, mark)
  while place <= #value do
    local size, expires = unpack('<I4i8', value, place + 8)
    if sub(value, place, place + 7) ~= LOCK then
      records, last = records .. sub(value, place, place + RECORD + size - 1), max(last, expires)
    end
    place = place + RECORD + size
  end
  return birth .. records .. lock, ceil((last - now) / 1000) + slack_ms
end

-- What a refusal does to the lock, if anything: a violation takes the next level, of which the last repeats; a hit
-- while locked may start the lock anew. numbers at `at`: levels, whether hits extend, then the length and the
-- memory of each level.
local function sanction(at, value, birth, instant, finish, mark)
  local levels, extends = unpack('<i8i8', args, at)
  local level = instant and floor(mark / 2) or 0
  if instant and instant < finish then
    if extends == 0 or mark % 2 == 1 then return end
    level = max(level, 1) - 1
  end
  level, instant = min(level, levels - 1), instant or now
  local length, memory = unpack('<i8i8', args, at + 16 + 16 * level)
  return with_lock(value, birth, instant, instant + length, 2 * (level + 1), memory)
end
