-- note_by_hand: notes in a value that its lock was set or lifted by hand, so that no earlier one is restored.
-- takes   value, stop, created_at, lock_time
-- gives   value, stop   with the note, for an hour
local noted, from = created_at, HEAD + 1
while from < stop do
  local size = RECORD + unpack('<I4', value, from + 8)
  if string.sub(value, from, from + 7) ~= 'unlocked' then noted = noted .. string.sub(value, from, from + size - 1) end
  from = from + size
end
value = noted .. 'unlocked' .. pack('<I4i8i8i8i8', STATE, now + 3600000000, lock_time, 0, 0)
stop = #value + 1
