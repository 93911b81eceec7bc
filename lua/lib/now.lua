local now = unpack('<i8', args, NOW_AT)
--[[ clock ]]
