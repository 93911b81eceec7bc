-- write_records: writes a key as charged.
-- takes   key, length, records, parts, ttl   of charge
-- gives   nothing
if ttl then
  call('SET', key, records, 'PX', ttl)
elseif parts then
  for i = 1, #parts, 3 do
    call('SETRANGE', key, i == 1 and '0' or parts[i - 1] - 1, parts[i])
  end
elseif #records >= length then -- a SETRANGE costs two thirds of a SET, but makes no value shorter
  call('SETRANGE', key, '0', records)
else
  call('SET', key, records, 'KEEPTTL')
end
