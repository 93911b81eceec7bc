-- check_value: looks where the records of a value end.
-- takes   value, stop, place   place is where one of them begins, or behind the last
-- gives   last    stop, if value is exactly a time of creation and records
local last = place
while last + RECORD <= stop do last = last + RECORD + unpack('<I4', value, last + 8) end
