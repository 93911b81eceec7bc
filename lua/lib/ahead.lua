-- What lies at `place` is read ahead, if it can hold a state.
tag = nil
if place + RECORD + STATE <= stop then tag, size, expires, a, b, c = unpack('<c8I4i8i8i8i8', value, place) end
