-- charge: works out what a charge does to its key. Writes nothing.
-- takes   k, part, cost   the key, where its policy's numbers begin in args, the cost
--         shadow          whether the charge only watches
--         number          which policy it is of, if the script knows several
-- gives   found, birth    of the key
--         admits, locked  whether all limits have room; whether a lock is in the way
--         records, ttl    the value as charged; how long the key lives then, nil if as long as before
--         charged         what the reply tells of it: birth, and each record's head without its tag, and state
--         locking, locking_ttl   the value with another lock, if that is what a refusal comes to; nil if not

--[[ get_value ]]
--[[ parse_value ]]
local admits, locked, ttl, locking, locking_ttl = false, false
local records, charged, old_expiry, new_expiry = birth, birth, 0, 0
repeat -- once: a limit that has no room leaves by break
  --[[ limits ]]
  admits = true
until true
if place < stop or not admits then
  --[[ find_lock ]]
  locked = lock_time and lock_time < lock_finish or false
  --[[ lock_after_refusal ]]
  if admits and not locked then
    -- Records of other limits, and a lock that is over, are copied until they expire.
    local tags, from, tag_offsets = {}, HEAD + 1
    --[[ tag_offsets ]]
    for _, offset in ipairs(tag_offsets) do tags[string.sub(args, part + offset, part + offset + 7)] = true end
    old_expiry = 0
    while from < stop do
      local size, expires = unpack('<I4i8', value, from + 8)
      if expires > now and expires < 2^53 and not tags[string.sub(value, from, from + 7)] then
        records = records .. string.sub(value, from, from + RECORD + size - 1)
        new_expiry = math.max(new_expiry, expires)
      end
      from = from + RECORD + size
    end
  end
end
if new_expiry > old_expiry then ttl = math.ceil((new_expiry - now) / 1000) + slack_ms end
