-- Reads a call's keys and changes nothing: the client works out the answer to a peek.
-- KEYS      one per charge
-- ARGV[1]   now
-- returns   found: per key its value
local unpack, pack, args = struct.unpack, struct.pack, ARGV[1]
local now = unpack('<i8', args)
--[[ prelude ]]
local answer = '\8' .. pack('<i8', now)
for k = 1, #KEYS do
  local key = KEYS[k]
  --[[ get_value ]]
  answer = answer .. (k < #KEYS and pack('<I4', length) or '') .. found
end
return answer
