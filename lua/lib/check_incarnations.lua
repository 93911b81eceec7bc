-- check_incarnations: the same for several keys, of all of which nothing is done if one is another one.
-- takes   incarnations   8 bytes per key: when it was created, or 0 if the caller remembers nothing of it; nil if of none
--         now
-- gives   nothing
if incarnations then
  local answer, NONE, are_others = '\4' .. pack('<i8', now), pack('<i8', 0), false
  for k = 1, #KEYS do
    local incarnation, remembered = redis.pcall('GETRANGE', KEYS[k], '0', '7'), string.sub(incarnations, HEAD * k - 7, HEAD * k)
    if type(incarnation) ~= 'string' or #incarnation < HEAD then incarnation = NONE end
    are_others = are_others or remembered ~= NONE and remembered ~= incarnation
    answer = answer .. incarnation
  end
  if are_others then return answer end
end
