-- Refuses what makes Redis hold more before Redis is full, so that all else always has room. It stands between prelude.lua and
-- a script that does, and what it reads is gone before that one runs.
-- KEYS[#KEYS]: room, ARGV[#ARGV]: the share of maxmemory in percent from which on it is refused; 100: from the whole, by Redis.
-- Reply: the error FULL, or that of the script.
-- The key is 1 while there is room for sure, and nothing is measured then: for as long as it takes to use up what is free at
-- a speed that Redis does not reach. It is 0 from a refusal on: then each call measures, until some more than nothing is free,
-- so that it does not change its mind with every message.
local ROOM, SHARE = table.remove(KEYS), tonumber(table.remove(ARGV))
local FASTEST = 4194304 -- bytes in a ms
local LOOK = 1000 -- ms until memory is measured again at the latest
local AGAIN = 0.98 -- of the bytes that it is refused from

local state = SHARE == 100 and '1' or try('GET', ROOM)
if state ~= '1' then
  local info = redis.pcall('INFO', 'memory')
  local function bytes(name)
    return type(info) == 'string' and tonumber(string.match(info, '\n' .. name .. ':(%d+)')) or 0
  end
  local most, used = bytes('maxmemory'), bytes('used_memory') - bytes('mem_not_counted_for_evict')
  local life = LOOK
  if most > 0 then
    local free = most * SHARE / 100 * (state == '0' and AGAIN or 1) - used
    if free <= 0 then
      if state ~= '0' then call('SET', ROOM, 0) end
      return redis.error_reply(string.format('FULL %.1f of %.1f MiB of maxmemory are in use, and %d%% are for messages; '
        .. 'have some handled, cancelled or purged, or raise maxmemory', used / 1048576, most / 1048576, SHARE))
    end
    life = math.max(math.min(math.floor(free / FASTEST), LOOK), 1)
  end
  call('SET', ROOM, 1, 'PX', life)
end
