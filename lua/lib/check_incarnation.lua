-- check_incarnation: does nothing more if the key is not the one that the caller remembers. For a script that has read its key,
-- which check_incarnations would read once more.
-- takes   found, length   of get_value
--         incarnations          8 bytes: when the key that the caller remembers was created; nil if it remembers none
--         now
-- gives   nothing
if incarnations and incarnations ~= string.sub(found, 1, HEAD) then
  return '\4' .. pack('<i8', now) .. (length < HEAD and pack('<i8', 0) or string.sub(found, 1, HEAD))
end
