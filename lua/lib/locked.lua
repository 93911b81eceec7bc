    -- A lock is the last record. state: start, finish, mark (twice the levels taken, plus 1 if it was set by hand).
    -- instant: when it is judged; nil: there is none, or it is forgotten.
    local instant, finish, mark, forgotten_at
    if string.sub(value, -RECORD - STATE, 7 - RECORD - STATE) == LOCK then
      local size, start
      size, forgotten_at, start, finish, mark = unpack('<I4i8i8i8i8', value, stop - STATE - 12)
      local ours = size == STATE and math.min(start, finish, mark) >= 0 and math.max(forgotten_at, mark) < EXACT
      ours = ours and finish <= forgotten_at and start < math.min(MAX_TIME, forgotten_at)
      instant = ours and forgotten_at > now and math.max(now, start) or nil
    end
