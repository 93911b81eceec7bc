-- Works out what a charge of `cost` to KEYS[k] does, and writes nothing. The numbers of its policy begin at `part`.
-- admits: whether all limits have room. locked: whether a lock is in the way. If it is admitted, records: the value as
-- charged; charged: birth and states as charged; ttl: how long the key lives, false if as before. If it is not,
-- locking: the value with another lock, if that is what a refusal comes to.
--[[ fetch ]]
  place = HEAD + 1
--[[ birth ]]
  local admits, locked, locking, locking_ttl, ttl = false, false, false
  local records, charged, old_expiry, new_expiry = birth, birth, 0, 0
  repeat -- left by break when a limit refuses
--[[ limits ]]
    admits = true
  until true
  if place < stop or not admits then
--[[ locked ]]
    locked = instant and instant < finish or false
--[[ penalty ]]
    if admits and not locked then
--[[ offsets ]]
--[[ carried ]]
    end
  end
  if new_expiry > old_expiry then ttl = math.ceil((new_expiry - now) / 1000) + unpack('<i8', args, SLACK_AT) end
