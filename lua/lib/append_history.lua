-- append_history: appends the older cells of a history. Those that were there are not copied yet: mostly they can stay
-- where they are.
-- takes   kept, pushed, cells_end   of prune_history
--         records, charged, parts, begun, fits
-- gives   records, charged, parts, begun, fits   as charge does
charged = charged or records
if kept then
  fits = fits and begun + #records == kept - 1
  if parts then
    local last = #parts
    parts[last + 1], parts[last + 2], parts[last + 3] = records, kept, cells_end
  else
    parts = {records, kept, cells_end}
  end
  records, begun = '', cells_end - 1
end
if pushed then records = records .. pushed end
