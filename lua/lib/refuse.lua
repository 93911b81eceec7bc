-- refuse: answers that a call of one charge does not pass, and sets the lock if it sets one.
-- takes   key, found, locking, locking_ttl   of charge
--         whole
-- gives   nothing
if locking then
  call('SET', key, locking, 'PX', locking_ttl)
  if whole then return '\42' .. pack('<i8c8I4', now, locking, #found) .. found .. locking end
  return '\10' .. pack('<i8', now) .. string.sub(locking, 1, HEAD) .. found
end
return '\8' .. pack('<i8', now) .. found
