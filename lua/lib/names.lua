-- Short names, for the scripts that few calls run.
local sub, floor, min, max = string.sub, math.floor, math.min, math.max
