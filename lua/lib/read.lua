-- Reads a call's keys and changes nothing: the answer to a peek is worked out by who asked.
-- KEYS      one per charge
-- ARGV[1]   now, slack_ms, patience
-- returns   {now, 0; the value of each key as found or nil}
local reply = {pack('<i8i8', now, 0)}
for k = 1, #KEYS do
--[[ fetch ]]
  reply[k + 1] = found
end
return reply
