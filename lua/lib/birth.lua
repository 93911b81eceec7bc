  -- birth: when the key came to be, by the server's clock.
  local birth = sub(value, 1, HEAD)
  if birth == '' then
    local time = injected and redis.call('TIME')
    birth = pack('<i8', time and time[1] * 1000000 + time[2] or now)
  end
