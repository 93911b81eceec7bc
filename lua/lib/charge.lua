-- charge: works out what a charge does to its key. Writes nothing.
-- takes   k, part, limit_count   the key; where its policy begins in args, and how many limits it has
--         cost, shadow, always   the cost; whether the charge is only watched; whether it is made in any case
--         slack_ms, patience
-- gives   found, created_at    of the key
--         admits, locked  whether all limits take it; whether a lock is in the way
--         records, ttl    the value as charged; how long the key lives then, nil if as long as before
--         charged         what the reply says of it: the records of the policy's limits without their cells
--         locking, locking_ttl   the value with a new lock, if a refusal sets one; else nil

--[[ get_value ]]
--[[ parse_value ]]
local admits, locked, ttl, locking, locking_ttl = true, false
local records, charged, old_expiry, new_expiry = created_at, nil, -1, 0 -- charged is nil while there are no cells
local limits_end = part + LIMIT * limit_count
for at = part, limits_end - 1, LIMIT do
  local algorithm, own, x, y, z, others = unpack('<Bc8i8i8i8', args, at)
  --[[ find_record ]]
  --[[ steps ]]
  if not admits then break end
  --[[ append_record ]]
end
charged = charged or records
if place < stop or not admits then
  --[[ find_lock ]]
  locked = lock_time and lock_time < lock_finish and not always
  if admits and not locked then
    --[[ copy_other_records ]]
  else
    --[[ lock_after_refusal ]]
  end
end
if new_expiry - new_expiry % HALF_A_SECOND > old_expiry then ttl = math.ceil((new_expiry - now) / 1000) + slack_ms end
