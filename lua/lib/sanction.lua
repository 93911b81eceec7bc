    -- What a refusal does to the lock, if anything: a violation takes the next level, of which the last repeats; a hit
    -- while locked may start the lock anew. numbers at `penalty`: levels, whether hits extend, then the length and
    -- the memory of each level.
    local levels, extends = unpack('<i8i8', args, penalty)
    local level = instant and math.floor(mark / 2) or 0
    if locked then level = math.max(level, 1) - 1 end
    if not locked or extends == 1 and mark % 2 == 0 then
      level, instant = math.min(level, levels - 1), instant or now
      local length, memory = unpack('<i8i8', args, penalty + 16 + 16 * level)
      finish, mark = instant + length, 2 * (level + 1)
--[[ relocked ]]
    end
