  -- found: the key's value; '' if there is none or it is of another type. Any other error, which comes as a table
  -- and so has no length, is for the client.
  local found = redis.pcall('GET', KEYS[k]) or ''
  if #found == 0 and found ~= '' then
    if string.sub(found.err, 1, 9) ~= 'WRONGTYPE' then return found end
    found = ''
  end
