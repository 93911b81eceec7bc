-- Locks keys by hand, whatever they did, or lifts their locks: the level stays, and for how long it is remembered.
-- KEYS      one per identifier
-- ARGV[1]   now, slack_ms (negative: answer), duration (0: lift the lock, if there is one)
-- ARGV[2]   as decide_several
-- returns   nothing; other keys as decide_several; or, if asked to answer, as `read`, what the keys hold then
local unpack, pack, args = struct.unpack, struct.pack, ARGV[1]
local now, slack_ms, duration = unpack('<i8i8i8', args)
--[[ prelude ]]
--[[ whole_or_not ]]
local incarnations = ARGV[2]
--[[ check_incarnations ]]
local answer = '\8' .. pack('<i8', now)
for k = 1, #KEYS do
  local key = KEYS[k]
  --[[ get_value ]]
  --[[ parse_value ]]
  --[[ find_lock ]]
  if lock_time or duration > 0 or whole then
    if not lock_time then lock_time, lock_level = now, 0 end
    local memory = lock_level > 0 and math.max(0, lock_forgotten - lock_finish) or 0
    local locking, locking_ttl
    lock_finish, lock_by_hand = math.min(lock_time + duration, EXACT - 1), 1
    if whole then
      --[[ note_by_hand ]]
    end
    --[[ set_lock ]]
    call('SET', key, locking, 'PX', locking_ttl)
    value = locking
  end
  if whole then answer = answer .. (k < #KEYS and pack('<I4', #value) or '') .. value end
end
if whole then return answer end
