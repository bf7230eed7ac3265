-- The token bucket of controlplane/eviction/rate.py, with the same steps, on the clock of Redis. A call is atomic.
-- KEYS[1]: the bucket. ARGV: wanted tokens, rate in tokens a second, capacity.
-- Returns the granted tokens, the seconds until the next token (-1: never at this rate) and the tokens left. Numbers are
-- returned as text, so that none of their digits are lost.
-- A bucket belongs to the server that wrote it. One that was restarted, or has taken over, may have an old copy of it with
-- tokens that were spent, so the bucket is empty then.

local WHOLE = 1 - 1e-9

local info = redis.pcall('INFO', 'server')
local server = type(info) == 'string' and string.match(info, 'run_id:(%x+)') or '' -- '': the login may not ask

local function exact(number)
  return string.format('%.17g', number)
end

local time = redis.call('TIME')
local seconds, micros = tonumber(time[1]), tonumber(time[2])
if ARGV[4] then -- tests give the time themselves
  seconds, micros = tonumber(ARGV[4]), tonumber(ARGV[5])
end
local now = seconds + micros / 1000000

local wanted, rate, capacity = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local kept = redis.call('HMGET', KEYS[1], 'tokens', 'rate', 'at', 'server')
if kept[4] ~= server then
  kept = {}
end
local tokens, old_rate, at = tonumber(kept[1] or '0'), tonumber(kept[2] or ARGV[2]), tonumber(kept[3] or exact(now))

local elapsed = math.max(0, now - at)
tokens = math.min(capacity, tokens + elapsed * math.min(rate, old_rate))
local granted = 0
if rate > 0 then
  granted = math.min(wanted, math.floor(tokens + 1 - WHOLE))
end
local left = math.max(0, tokens - granted)
local next_in = -1
if rate > 0 then
  next_in = math.max(0, (1 - left) / rate)
end
redis.call('HSET', KEYS[1], 'tokens', exact(left), 'rate', exact(rate), 'at', exact(now), 'server', server)
return {granted, exact(next_in), exact(left)}
