-- Refuses what makes Redis hold more before Redis is full, so that all else always has room, and while Redis may evict what it
-- holds. It stands between prelude.lua and a script that does. The last key and argument are gone before that one runs; the time
-- that it read stays: us and now.
-- KEYS[#KEYS]: room, ARGV[#ARGV]: the share of maxmemory in percent from which on it is refused; 100: from the whole, by Redis.
-- Reply: the error FULL, EVICTS with the policy, or that of the script.
-- The key is the time in ms up to which there is room for sure, and nothing is measured until then: as long as it takes to use up
-- what is free at a speed that Redis does not reach. It is no time to live, which ends later by as much as the clock is set back.
-- The key is 0 from a refusal on: then each call measures, until some more than nothing is free, so that it does not change its
-- mind with every message.
local ROOM, SHARE = table.remove(KEYS), tonumber(table.remove(ARGV))
local FASTEST = 4194304 -- bytes in a ms
local LOOK = 1000 -- ms until memory is measured again at the latest
local AGAIN = 0.98 -- of the bytes that it is refused from
local us, now = clock()

local state = tonumber(try('GET', ROOM) or nil)
if not state or now >= state or state - now > LOOK then
  local memory = memory_of_redis()
  if memory.evicts then return redis.error_reply('EVICTS ' .. memory.evicts) end
  local life = LOOK
  if memory.most > 0 and SHARE < 100 then
    local free = memory.most * SHARE / 100 * (state == 0 and AGAIN or 1) - memory.used
    if free <= 0 then
      if state ~= 0 then call('SET', ROOM, 0) end
      return redis.error_reply(string.format('FULL %.1f of %.1f MiB of maxmemory are in use, and %d%% are for messages; '
        .. 'have some handled, cancelled or purged, or raise maxmemory', memory.used / 1048576, memory.most / 1048576, SHARE))
    end
    life = math.max(math.min(math.floor(free / FASTEST), LOOK), 1)
  end
  call('SET', ROOM, text(now + life))
end
