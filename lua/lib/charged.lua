-- The record as charged, with the state a, b, c.
local head = pack('<I4i8i8i8i8', STATE + #cells, expiry, a, b, c)
records, charged = records .. own .. head .. cells, charged .. head
if expiry > new_expiry then new_expiry = expiry end
