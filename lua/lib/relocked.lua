      -- locking: the value with the lock (instant, finish, mark), remembered for `memory` after its finish.
      -- locking_ttl: how long its key lives then.
      local others, last, from = '', math.min(finish + memory, EXACT - 1), HEAD + 1
      local lock = LOCK .. pack('<I4i8i8i8i8', STATE, last, instant, finish, mark)
      while from < stop do
        local size, expires = unpack('<I4i8', value, from + 8)
        if expires < EXACT and string.sub(value, from, from + 7) ~= LOCK then
          others, last = others .. string.sub(value, from, from + RECORD + size - 1), math.max(last, expires)
        end
        from = from + RECORD + size
      end
      locking, locking_ttl = birth .. others .. lock, math.ceil((last - now) / 1000) + unpack('<i8', args, SLACK_AT)
