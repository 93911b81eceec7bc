-- charge: works out what a charge does to its key. Writes nothing.
-- takes   part, limit_count   where the key's policy begins in args, and how many limits it has
--         found, length   the key's value as it was found
--         cost, needed    what is charged; what there must be room for, which is more in a lease
--         shadow, always  whether the charge is only watched; whether it is made in any case
--         extra, term     how many of the cost are for a lease, and how long that lives; nil if none
--         slack_ms, patience
-- gives   admits, locked  whether all limits take it; whether a lock is in the way
--         records, ttl    the value as charged; how long the key lives then, nil if about as long as before
--         parts   nil, or what of the value to write, as join_parts gives it: then the rest stays
--         charged         what the reply says of it: the time of creation and the limits' records without their cells
--         locking, locking_ttl   the value with a new lock, if a refusal sets one; else nil

local admits, records, charged, parts, locked, ttl, locking, locking_ttl
local old_expiry, new_expiry, limits_end = -1, 0, part + LIMIT * limit_count
local begun, fits = 0, true -- how many bytes of what was found are before `records`; whether parts stay where they are so far
repeat -- what was found is taken for a value, and for nothing if it turns out to be none
  --[[ read_value ]]
  local is_value = true
  admits = true
  records = created_at
  for at = part, limits_end - 1, LIMIT do
    local algorithm, own, x, y, z, others = unpack('<Bc8i8i8i8', args, at)
    --[[ find_record ]]
    --[[ steps ]]
    if not admits then break end
    --[[ append_record ]]
  end
  charged = charged or records
  if parts and admits then
    --[[ join_parts ]]
  end
  if place ~= stop or not admits then
    --[[ check_value ]]
    is_value = last == stop
    if is_value then
      --[[ find_lock ]]
      locked = lock_time and lock_time < lock_finish and not always
      if admits and not locked then
        --[[ copy_other_records ]]
      else
        --[[ lock_after_refusal ]]
      end
    else
      length, charged, old_expiry, new_expiry, parts, begun = 0, nil, -1, 0, nil, 0
    end
  end
until is_value
-- The TTL follows the expiry by half seconds, since setting one costs more than to write the value.
if new_expiry - new_expiry % 500000 > old_expiry then ttl = math.ceil((new_expiry - now) / 1000) + slack_ms end
