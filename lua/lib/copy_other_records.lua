-- copy_other_records: copies records of other limits, and a lock that is over or in nobody's way, until they expire.
-- takes   value, stop
--         records      the records of the policy's limits
--         new_expiry
-- gives   records, new_expiry   with the others
--         old_expiry            -1, so that the TTL is set
local tags, from, written = {}, HEAD + 1, HEAD + 1
while written <= #records do
  tags[string.sub(records, written, written + 7)] = true
  written = written + RECORD + unpack('<I4', records, written + 8)
end
while from < stop do
  local size, expires = unpack('<I4i8', value, from + 8)
  if expires > now and expires < EXACT and not tags[string.sub(value, from, from + 7)] then
    records = records .. string.sub(value, from, from + RECORD + size - 1)
    if expires > new_expiry then new_expiry = expires end
  end
  from = from + RECORD + size
end
old_expiry = -1
