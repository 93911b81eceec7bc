-- The value of a key: birth (int64), then records of tag (8 bytes), size (uint32), expires_at (int64) and
-- `size` bytes. Anything else under our key is as if there were nothing.
local HEAD, RECORD, STATE, CELL = 8, 20, 24, 16

-- value, or false; and an error reply that isn't about the value, if there is one.
local function get(key)
  local value = redis.pcall('GET', key)
  if type(value) == 'table' then
    if sub(value.err, 1, 9) == 'WRONGTYPE' then return false end
    return false, value
  end
  if not value or #value < HEAD then return false end
  local at, stop = HEAD + 1, #value + 1
  while at + RECORD <= stop do at = at + RECORD + unpack('<I4', value, at + 8) end
  return at == stop and value
end

-- Where the record with this tag begins, wherever it is; false without one.
local function search(value, tag)
  local at = HEAD + 1
  while at < #value do
    if sub(value, at, at + 7) == tag then return at end
    at = at + RECORD + unpack('<I4', value, at + 8)
  end
  return false
end

-- The unexpired records of other tags as they are, and the latest of their expiries.
local function others(value, tags)
  local kept, latest, at = {}, 0, HEAD + 1
  while at < #value do
    local size, expires = unpack('<I4i8', value, at + 8)
    if expires > now and not tags[sub(value, at, at + 7)] then
      kept[#kept + 1] = sub(value, at, at + RECORD + size - 1)
      latest = max(latest, expires)
    end
    at = at + RECORD + size
  end
  return table.concat(kept), latest
end
