  -- birth: when the key came to be, by the server's clock.
  if stop == 1 then
    local time = injected and redis.call('TIME')
    birth = pack('<i8', time and time[1] * 1000000 + time[2] or now)
  elseif not birth then
    birth = string.sub(value, 1, HEAD)
  end
