    -- A caller who waits for its turn is never punished.
    local penalty = false
--[[ penalty_at ]]
    if penalty and (locked or not admits) and role ~= SHADOW and cost > 0 and unpack('<i8', args, PATIENCE_AT) >= EXACT
    then
--[[ sanction ]]
    end
