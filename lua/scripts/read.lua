-- Reads a call's keys and changes nothing: the client works out the answer to a peek.
-- KEYS      one per charge
-- ARGV[1]   now
-- returns   'F', now; per key its value as found, and before each but the last its size
local unpack, pack, args = struct.unpack, struct.pack, ARGV[1]
local now = unpack('<i8', args)
--[[ prelude ]]
local answer = 'F' .. pack('<i8', now)
for k = 1, #KEYS do
  local key = KEYS[k]
  --[[ get_value ]]
  answer = answer .. (k < #KEYS and pack('<I4', length) or '') .. found
end
return answer
