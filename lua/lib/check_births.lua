-- check_births: the same for several keys, of all of which nothing is done if one is another one.
-- takes   births   8 bytes per key: when it was created, or 0 if the caller remembers nothing of it; nil if of none
--         now
-- gives   nothing
if births then
  local answer, UNBORN, are_others = '\4' .. pack('<i8', now), pack('<i8', 0), false
  for k = 1, #KEYS do
    local birth, remembered = redis.pcall('GETRANGE', KEYS[k], '0', '7'), string.sub(births, HEAD * k - 7, HEAD * k)
    if type(birth) ~= 'string' or #birth < HEAD then birth = UNBORN end
    are_others = are_others or remembered ~= UNBORN and remembered ~= birth
    answer = answer .. birth
  end
  if are_others then return answer end
end
