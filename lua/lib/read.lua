-- Reads a call's keys and changes nothing: the answer to a peek is worked out by who asked.
-- KEYS      one per charge
-- ARGV[1]   slack_ms, patience, now
-- returns   'F', now; per key its value as found, and before each but the last its size
--[[ now ]]
local answer = 'F' .. pack('<i8', now)
for k = 1, #KEYS do
--[[ get ]]
  answer = answer .. (k < #KEYS and pack('<I4', #found) or '') .. found
end
return answer
