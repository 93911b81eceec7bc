-- Decides a call as decide_one does. If it passes, also charges extra units, which the client spends by itself within a term:
-- as many as are wanted, halved until four times as many would go at once.
-- KEYS[1]
-- ARGV[1]   now, slack_ms, patience, cost, how many extra units are wanted, term; how many limits; the policy
-- A negative slack_ms asks for the whole value.
-- ARGV[2]   as decide_one
-- returns   as decide_one; what was charged with the flag `granted`, and after now how many extra units were
local unpack, pack, args = struct.unpack, struct.pack, ARGV[1]
local now, slack_ms, own_patience, own_cost, wanted, longest, limit_count, part = unpack('<i8i8i8i8i8i8B', args)
--[[ prelude ]]
--[[ whole_or_not ]]
local key, shadow, always, extra, passes_alone = KEYS[1], false, false, wanted, false
local incarnations = ARGV[2]
--[[ get_value ]]
--[[ check_incarnation ]]
while true do -- all that is wanted; if that does not fit, the call alone; then half as much, and so on
  local cost, needed, patience, term = own_cost + extra, own_cost + 4 * extra, own_patience
  if extra > 0 then patience, term = -EXACT, longest end
  --[[ charge ]]
  if not admits or locked then
    if extra == 0 then
      --[[ refuse ]]
    end
    wanted = math.floor(wanted / 2)
    extra = passes_alone and wanted or 0
  elseif extra > 0 or wanted == 0 then
    --[[ write_records ]]
    if whole and #records <= 4096 then return '\49' .. pack('<i8i8', now, extra) .. records end
    return '\17' .. pack('<i8i8', now, extra) .. charged
  else
    passes_alone, extra = true, wanted
  end
end
