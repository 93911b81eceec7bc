-- write_records: writes a key as charged.
-- takes   key, records, ttl   of charge
-- gives   nothing
if ttl then
  call('SET', key, records, 'PX', ttl)
else
  call('SET', key, records, 'KEEPTTL')
end
