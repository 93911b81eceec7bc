-- Locks keys by hand, whatever they did, or lifts their locks: the level stays, and for how long it is remembered.
-- KEYS      one per identifier
-- ARGV[1]   now, slack_ms, duration (0: lift the lock, if there is one)
-- returns   nothing
local unpack, pack, args = struct.unpack, struct.pack, ARGV[1]
local now, slack_ms, duration = unpack('<i8i8i8', args)
--[[ prelude ]]
for k = 1, #KEYS do
  local key = KEYS[k]
  --[[ get_value ]]
  --[[ parse_value ]]
  --[[ find_lock ]]
  if lock_time or duration > 0 then
    if not lock_time then lock_time, lock_level = now, 0 end
    local memory = lock_level > 0 and math.max(0, lock_forgotten - lock_finish) or 0
    local locking, locking_ttl
    lock_finish, lock_by_hand = math.min(lock_time + duration, EXACT - 1), 1
    --[[ set_lock ]]
    call('SET', key, locking, 'PX', locking_ttl)
  end
end
