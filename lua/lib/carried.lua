    -- Records of other limits, and a lock, are carried along until they expire.
    local tags, from = {}, HEAD + 1
    for _, offset in ipairs(offsets) do tags[string.sub(args, part + offset, part + offset + 7)] = true end
    old_expiry = 0
    while from < stop do
      local size, expires = unpack('<I4i8', value, from + 8)
      if expires > now and expires < EXACT and not tags[string.sub(value, from, from + 7)] then
        records = records .. string.sub(value, from, from + RECORD + size - 1)
        new_expiry = math.max(new_expiry, expires)
      end
      from = from + RECORD + size
    end
