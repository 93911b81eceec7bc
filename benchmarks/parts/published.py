"""Scripts of five published limiters (docs/appendix/systems.md), written anew from what is told of them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

FAR = 10**9

COUNTER = """
local count = redis.call('INCR', KEYS[1])
if count == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
if count > tonumber(ARGV[1]) then return -1 end
return count"""
"""A window that begins with the first request: limit, milliseconds."""

INTERVAL_BUCKET = """
local capacity, rate = tonumber(ARGV[1]), tonumber(ARGV[2])
local interval, now = tonumber(ARGV[3]), tonumber(ARGV[4])
local filled_at = tonumber(redis.call('GET', KEYS[2]) or now)
local tokens = tonumber(redis.call('GET', KEYS[1]) or capacity)
local intervals = math.floor((now - filled_at) / interval)
tokens = math.min(capacity, tokens + intervals * rate) - 1
if tokens < 0 then return -1 end
local lives = math.ceil(capacity / rate) * interval
redis.call('SET', KEYS[1], tokens, 'PX', lives)
redis.call('SET', KEYS[2], filled_at + intervals * interval, 'PX', lives)
return tokens"""
"""Whole intervals are added: capacity, tokens of an interval, its milliseconds, time."""

SUB_PERIODS = """
local limit, period, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
if redis.call('EXISTS', KEYS[1] .. ':lock') == 1 then return {1, -1} end
local current, names = math.floor(now / period), {}
for number = 0, 9 do names[number + 1] = KEYS[1] .. ':' .. (current - number) end
local count = 0
for _, kept in ipairs(redis.call('MGET', unpack(names))) do count = count + (tonumber(kept) or 0) end
if count + 1 > limit then return {1, count} end
redis.call('INCRBY', names[1], 1)
redis.call('PEXPIRE', names[1], 11 * period)
return {0, count + 1}"""
"""A window of ten sub-periods, each a key: limit, milliseconds of a sub-period, time."""

WAITING_BUCKET = """
local size, rate, now, permits = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local kept = redis.call('HMGET', KEYS[1], 'tokens', 'time')
local tokens = math.min(size, (tonumber(kept[1]) or size) + (now - (tonumber(kept[2]) or now)) * rate)
if permits > size then return -1 end
if tokens < permits then return math.ceil((permits - tokens) / rate) end
redis.call('HSET', KEYS[1], 'tokens', tokens - permits, 'time', now)
redis.call('EXPIRE', KEYS[1], math.ceil(size / rate))
return 0"""
"""A continuous bucket that answers with the wait: size, rate, time, permits."""

PERIOD = """
local quota, count = tonumber(ARGV[1]), redis.call('INCRBY', KEYS[1], 1)
if count == 1 then redis.call('EXPIRE', KEYS[1], ARGV[2]) end
if count < quota then return 1 elseif count == quota then return 2 else return 0 end"""
"""A period with a quota: quota, seconds."""

TOKENS = """
local rate, burst, now, asked = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local lives = math.floor(burst / rate * 2)
local tokens = tonumber(redis.call('GET', KEYS[1])) or burst
local last = tonumber(redis.call('GET', KEYS[2])) or 0
tokens = math.min(burst, tokens + math.max(0, now - last) * rate)
local is_allowed = tokens >= asked
if is_allowed then tokens = tokens - asked end
redis.call('SETEX', KEYS[1], lives, tokens)
redis.call('SETEX', KEYS[2], lives, now)
return is_allowed"""
"""A bucket of two keys, written whatever comes out: rate, burst, time, tokens."""

SUB_BUCKETS = """
local limits, weight = cjson.decode(ARGV[1]), tonumber(ARGV[2])
local now = tonumber(redis.call('TIME')[1])
local charges = {}
for _, key in ipairs(KEYS) do
  for _, limit in ipairs(limits) do
    local duration, most, precision = limit[1], limit[2], limit[3] or limit[1]
    local name = duration .. ':' .. precision .. ':'
    local block = math.floor(now / precision)
    local oldest = block - math.ceil(duration / precision) + 1
    local kept = redis.call('HMGET', key, name .. 'oldest', name .. 'count')
    local first, count = tonumber(kept[1]) or oldest, tonumber(kept[2]) or 0
    local gone = {}
    for number = first, oldest - 1 do gone[#gone + 1] = name .. number end
    if #gone > 0 then
      local counts = redis.call('HMGET', key, unpack(gone))
      for _, each in ipairs(counts) do count = count - (tonumber(each) or 0) end
    end
    if count + weight > most then return 1 end
    charges[#charges + 1] = {key, name, block, math.max(first, oldest), count, gone, duration}
  end
end
for _, charge in ipairs(charges) do
  local key, name, block, oldest, count, gone, duration = unpack(charge)
  if #gone > 0 then redis.call('HDEL', key, unpack(gone)) end
  redis.call('HMSET', key, name .. 'oldest', oldest, name .. 'count', count + weight)
  redis.call('HINCRBY', key, name .. block, weight)
  if redis.call('TTL', key) < duration then redis.call('EXPIRE', key, duration) end
end
return 0"""
"""Several limits of several identifiers, each in blocks of a precision: limits as JSON, weight."""

Call = Callable[[], object]


def published(client: Any) -> Iterator[tuple[str, Call]]:
    """Yield a call of each script, by what it is."""
    three = json.dumps([[86_400, FAR, 8_640], [604_800, FAR, 60_480], [2_592_000, FAR, 259_200]])
    one = json.dumps([[86_400, FAR, 8_640]])
    yield "an article's counter", _call(client, COUNTER, 1, "s0:counter", FAR, 86_400_000)
    yield "its bucket by intervals", _timed(client, INTERVAL_BUCKET, 2, "s0:t", "s0:f", FAR, 10, 1000, "ms")
    yield "FireflySoft, ten sub-periods", _timed(client, SUB_PERIODS, 1, "s1", FAR, 8_640_000, "ms")
    yield "kaciras, a bucket that says the wait", _timed(client, WAITING_BUCKET, 1, "s2", FAR, 1000, "s", 1)
    yield "go-zero, a period", _call(client, PERIOD, 1, "s3:period", FAR, 86_400)
    yield "go-zero, a bucket", _timed(client, TOKENS, 2, "s3:t", "s3:f", 1000, FAR, "s", 1)
    yield "over_limit, one limit", _call(client, SUB_BUCKETS, 1, "s4:one", one, 1)
    yield "over_limit, three limits", _call(client, SUB_BUCKETS, 1, "s4:three", three, 1)
    yield "over_limit, 2 identifiers x 3 limits", _call(client, SUB_BUCKETS, 2, "s4:a", "s4:b", three, 1)


def _call(client: Any, script: str, keys: int, *words: object) -> Call:
    name = client.script_load(script)
    return lambda: client.evalsha(name, keys, *words)


def _timed(client: Any, script: str, keys: int, *words: object) -> Call:
    """Return a call with the client's time in the place of its unit."""
    name = client.script_load(script)

    def call() -> object:
        now = time.time()
        times = {"s": int(now), "ms": int(now * 1000)}
        return client.evalsha(name, keys, *(times.get(str(word), word) for word in words))

    return call
