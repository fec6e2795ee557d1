-- Memory.

-- What Redis tells of its memory: its limit in bytes, 0 if it has none, what is in use of it, and the policy by which it may
-- evict what it holds, nil where it does not.
local function memory_of_redis()
  local info = redis.pcall('INFO', 'memory')
  if type(info) ~= 'string' then return { most = 0, used = 0 } end -- the trial server's
  local function bytes(name) return tonumber(string.match(info, '\n' .. name .. ':(%d+)') or 0) end
  local most, policy = bytes('maxmemory'), string.match(info, '\nmaxmemory_policy:([%w-]+)')
  if most == 0 or policy == 'noeviction' then policy = nil end
  return { most = most, used = bytes('used_memory') - bytes('mem_not_counted_for_evict'), evicts = policy }
end

local FASTEST = 4194304 -- bytes in a ms, a speed that Redis does not reach
local AGAIN = 0.98 -- of the bytes that it is refused from
local LOOK = 1000 -- ms until memory is measured again at the latest

-- Measures memory, and writes down up to when there is room for sure. State is what was written before. Returns the error FULL,
-- EVICTS with the policy, or nil.
-- The key is the time in ms up to which nothing is measured: as long as it takes to use up what is free as FASTEST says. It is no
-- time to live, which ends later by as much as the clock is set back. The key is 0 from a refusal on: then each call measures,
-- until some more than nothing is free, so that it does not change its mind with every message.
local function measure_room(state, now)
  local memory = memory_of_redis()
  if memory.evicts then return redis.error_reply('EVICTS ' .. memory.evicts) end
  local life, share, key = LOOK, tonumber(SHARE), room_of(SHARE)
  if memory.most > 0 and share < 100 then
    local free = memory.most * share / 100 * (state == 0 and AGAIN or 1) - memory.used
    if free <= 0 then
      if state ~= 0 then call('SET', key, 0) end
      return redis.error_reply(string.format('FULL %.1f of %.1f MiB of maxmemory are in use, and %d%% are for messages; '
        .. 'have some handled, cancelled or purged, or raise maxmemory', memory.used / 1048576, memory.most / 1048576, share))
    end
    life = math.max(math.min(math.floor(free / FASTEST), LOOK), 1)
  end
  call('SET', key, text(now + life))
end

-- Refuses what makes Redis hold more before Redis is full, so that all else always has room, and while Redis may evict what it
-- holds. Returns the error of measure_room, or nil; and the time that it read, in us and ms. SHARE is the share of maxmemory in
-- percent from which on it is refused; 100: from the whole, by Redis.
local function refuse_to_grow()
  local us, now = clock()
  local state = tonumber(try('GET', room_of(SHARE)) or nil)
  if state and now < state and state - now <= LOOK then return nil, us, now end
  return measure_room(state, now), us, now
end
