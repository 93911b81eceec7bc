-- append_record: appends the record as charged, and reads the next one, which mostly is the next limit's.
-- takes   own, a, b, c, cells, new_size, kept, pushed, expiry   the record
--         value, stop, place, records, charged, parts, begun, fits, new_expiry
-- gives   records, charged, parts, begun, fits, new_expiry   with this record
--         tag, size, expires, a, b, c    of the record at place; tag is nil if there is none that can hold a state
if charged or cells ~= '' then -- as few strings as can be: Redis' Lua hashes each of them, byte by byte
  local record = pack('<c8I4i8i8i8i8', own, new_size + #cells, expiry, a, b, c)
  charged = (charged or records) .. record
  records = records .. record .. cells
else
  records = pack('<c0c8I4i8i8i8i8', records, own, new_size, expiry, a, b, c)
end
if new_size > STATE then
  --[[ append_history ]]
end
if expiry > new_expiry then new_expiry = expiry end
if place + WHOLE <= stop then
  tag, size, expires, a, b, c = unpack('<c8I4I8I8I8I8', value, place)
else
  tag = nil
end
