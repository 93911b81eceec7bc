-- new_value: begins a value that holds no records.
-- takes   now, injected
-- gives   value, stop   '' and the place of its first record
--         created_at    the server's time
local time = injected and call('TIME')
created_at = pack('<i8', time and time[1] * 1000000 + time[2] or now)
value, stop = '', HEAD + 1
