-- Gives back what a call has charged, as far as it still counts.
-- KEYS      one per charge
-- ARGV[1]   slack_ms, patience, now; per charge the number of its policy, where that policy's part begins, its
--           cost and its role; per policy and limit its tag and numbers
-- ARGV[2]   per charge the birth of its key, and per limit the state right after the charge
-- returns   the number of keys that changed
local receipt, changed = 1, 0
for k = 1, #KEYS do
  local number, at, cost = unpack('<i8i8i8', args, REST_AT + 32 * (k - 1))
  local policy = policies[number]
--[[ fetch ]]
  local born_then = value ~= '' and sub(value, 1, HEAD) == sub(ARGV[2], receipt, receipt + HEAD - 1)
  receipt = receipt + HEAD
  for j = 1, #policy, 2 do
    local tag, first = sub(args, at, at + 7), born_then and HEAD + 1 or #value + 1
    while first <= #value and sub(value, first, first + 7) ~= tag do
      first = first + RECORD + unpack('<I4', value, first + 8)
    end
    if first <= #value then
      local size, expires = unpack('<I4i8', value, first + 8)
      local last, a, b, c = first + RECORD + size, -1, -1, -1
      if expires > now and expires < EXACT and size >= STATE and (size - STATE) % CELL == 0 then
        a, b, c = unpack('<i8i8i8', value, first + RECORD)
      end
      local state, cells
      if min(a, b, c) >= 0 and max(a, b, c) < EXACT then
        state, cells = policy[j](at + 8, cost, receipt, a, b, c, value, first + RECORD + STATE, last)
      end
      if state then
        local head = tag .. pack('<I4i8', #state + #cells, expires)
        value = sub(value, 1, first - 1) .. head .. state .. cells .. sub(value, last)
      end
    end
    receipt, at = receipt + STATE, at + policy[j + 1]
  end
  if value ~= found and value ~= '' then
    redis.call('SET', KEYS[k], value, 'KEEPTTL')
    changed = changed + 1
  end
end
return changed
