-- Memory.

-- Redis's memory: its limit in bytes, 0 if it has none, how much of it is in use, and the policy that lets it evict messages, nil
-- if it evicts nothing.
function Memory.memory_of_redis()
  local info = redis.pcall('INFO', 'memory')
  if type(info) ~= 'string' then return { most = 0, used = 0 } end -- the trial server
  local function bytes(name) return tonumber(string.match(info, '\n' .. name .. ':(%d+)') or 0) end
  local most, policy = bytes('maxmemory'), string.match(info, '\nmaxmemory_policy:([%w-]+)')
  if most == 0 or policy == 'noeviction' then policy = nil end
  return { most = most, used = bytes('used_memory') - bytes('mem_not_counted_for_evict'), evicts = policy }
end

local FASTEST = 4194304 -- bytes per ms, faster than Redis takes them
local AGAIN = 0.98 -- of the share: after a refusal publishes are taken again below this
local MEASURE = 1000 -- ms after which memory is measured again at the latest

-- Measures memory, and writes until when enough is surely free of a share, in percent. State is the value before. Returns the error FULL, EVICTS with the
-- policy, or nil.
-- The value is the time in ms until which nothing is measured: the time that filling the free memory takes at the speed FASTEST. It
-- is no time to live, since that would last longer by as much as the clock is set back. After a refusal the value is 0: then each
-- call measures, and refuses until memory in use is below AGAIN, so that not every message changes the answer.
local function measure_memory(state, now, percent)
  local memory = Memory.memory_of_redis()
  if memory.evicts then return redis.error_reply('EVICTS ' .. memory.evicts) end
  local life, share, key = MEASURE, tonumber(percent), room_of(percent)
  if memory.most > 0 and share < 100 then
    local free = memory.most * share / 100 * (state == 0 and AGAIN or 1) - memory.used
    if free <= 0 then
      if state ~= 0 then call('SET', key, 0) end
      return redis.error_reply(string.format('FULL %.1f of %.1f MiB of maxmemory are in use, and %d%% are for messages; '
        .. 'have some handled, cancelled or purged, or raise maxmemory', memory.used / 1048576, memory.most / 1048576, share))
    end
    life = math.max(math.min(math.floor(free / FASTEST), MEASURE), 1)
  end
  call('SET', key, text(now + life))
end

-- Refuses calls that make Redis hold more before Redis is full, so that all others always have memory, and while Redis may evict
-- messages. Returns the error of measure_memory, or nil; and the time that it read, in us and ms. SHARE is the share of maxmemory
-- in percent above which calls are refused; 100: only Redis itself refuses.
function Memory.refuse_to_grow()
  local us, now = clock()
  local state = tonumber(try('GET', room_of(SHARE)) or nil)
  if state and now < state and state - now <= MEASURE then return nil, us, now end
  return measure_memory(state, now, SHARE), us, now
end

-- Whether Redis has memory for what may be left out, such as why an attempt failed: no more is in use than messages may take, or
-- than ENOUGH percent.
function Memory.has_room(now)
  local ENOUGH = 98 -- enough of memory.go
  local percent = math.min(tonumber(SHARE), ENOUGH)
  local state = tonumber(try('GET', room_of(percent)) or nil)
  return state and now < state and state - now <= MEASURE or not measure_memory(state, now, percent)
end
