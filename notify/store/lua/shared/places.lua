-- The arrows of the state diagram (doc.go) between the schedules and the ready sets: nobody else writes to these.
--
-- A script that is refused a right in the middle stops there, and what it wrote stays. So each puts a message into its new place
-- before it takes it out of the old one, writes what leads to a message before the message, and settles counters and indexes
-- last: wherever it stops the message is carried or claimed, or it is not published.
--
-- A put changes nothing and returns false where a key is foreign. Lists hold pairs of time and member.

-- What a script answers where a put returns false.
local function foreign_ready(topic)
  return redis.error_reply('the ready set of ' .. topic .. ' is foreign: ' .. ready_of(topic))
end

local function foreign_schedule(topic)
  return redis.error_reply('the schedule of ' .. topic .. ' or the set of all schedules is foreign: '
    .. schedule_of(topic) .. ', ' .. SCHEDULES)
end

local function foreign_broadcasts()
  return redis.error_reply('the set of broadcasts is foreign: ' .. BROADCASTS)
end

-- Puts a list into the ready set of its topic. Earliest is the least of its times. The topic stands in READY then, by the due
-- time of the first in its ready set, or by that of an earlier one that is gone: who claims does not change it, and notable.lua
-- sets right what it reads of it. The caller rings, when all else is done.
local function put_ready(topic, list, earliest)
  try('ZADD', READY, 'LT', earliest, topic)
  if try('ZADD', ready_of(topic), unpack(list)) then return true end
  try('ZREM', READY, topic)
  return false
end

-- Has a topic stand in READY no more if nothing of it is ready: for who took something out of its ready set.
local function settle_ready(topic)
  if call('EXISTS', ready_of(topic)) == 0 then try('ZREM', READY, topic) end
end

-- Has a topic stand in an index, READY or NEWEST, by a time, and no more where there is none: for who found it behind the truth.
local function settle_index(index, topic, time)
  if time then call('ZADD', index, time, topic) else call('ZREM', index, topic) end
end

-- Takes the oldest out of the ready set of a topic.
local function take_oldest_ready(topic, n)
  call('ZREMRANGEBYRANK', ready_of(topic), 0, n - 1)
  settle_ready(topic)
end

-- Takes a member out of the ready set of its topic. Returns whether it was there.
local function take_ready(topic, member)
  if try('ZREM', ready_of(topic), member) ~= 1 then return false end
  settle_ready(topic)
  return true
end

-- Has a topic stand in SCHEDULES, as its schedule begins, as long as there is one: for who took something out of it.
local function settle_schedule(topic)
  local head = call('ZRANGE', schedule_of(topic), 0, 0, 'WITHSCORES')[2]
  if head then try('ZADD', SCHEDULES, head, topic) else try('ZREM', SCHEDULES, topic) end
end

-- Puts a list into the schedule of its topic, and tells the carrier if the first of all changed. Earliest is the least of its
-- times.
local function put_scheduled(topic, list, earliest)
  local key = schedule_of(topic)
  local first, head = try('ZRANGE', SCHEDULES, 0, 0, 'WITHSCORES'), try('ZRANGE', key, 0, 0, 'WITHSCORES')
  if not first or not head then return false end
  if head[2] then earliest = math.min(earliest, head[2]) end
  call('ZADD', SCHEDULES, earliest, topic)
  call('ZADD', key, unpack(list))
  nudge(earliest, first[2])
  return true
end

-- Takes a member out of the schedule of its topic. Returns whether it was there.
local function take_scheduled(topic, member)
  if try('ZREM', schedule_of(topic), member) ~= 1 then return false end
  settle_schedule(topic)
  return true
end

-- Takes the first n out of the schedule of a topic.
local function take_first_scheduled(topic, n)
  if n > 0 then call('ZREMRANGEBYRANK', schedule_of(topic), 0, n - 1) end
  settle_schedule(topic)
end

-- Takes out of SCHEDULES what is no topic.
local function take_schedule(foreign)
  call('ZREM', SCHEDULES, foreign)
end

-- Has a schedule that is foreign looked at again at a time.
local function postpone_schedule(topic, ms)
  call('ZADD', SCHEDULES, ms, topic)
end

-- Has a member wait in the place where it is, a key, until a time: it can neither be moved nor buried. Units is how many there are
-- in a ms of what the scores of the place are. Nil where the key is foreign, too.
local function postpone(place, member, ms, units)
  try('ZADD', EXPIRIES, 'XX', ms, member)
  return try('ZADD', place, text(ms * units), member)
end

-- Whether something of a topic is overdue: nobody carries, or the carrier is behind. What comes to be due at once waits behind
-- it in the schedule then, so that order holds.
local function is_behind(topic, now)
  local head = tonumber(try('ZSCORE', SCHEDULES, topic) or nil)
  return head and head <= now
end

-- Puts a list that is due into the ready set of its topic, or behind what is overdue of it. Returns whether it is put, and whether
-- it is the ready set that takes it, or does not.
local function place_due(topic, list, earliest, now)
  if is_behind(topic, now) then return put_scheduled(topic, list, earliest), false end
  return put_ready(topic, list, earliest), true
end

local function foreign_place(topic, at_once)
  return at_once and foreign_ready(topic) or foreign_schedule(topic)
end

-- Puts a list of broadcasts where they wait for the carrier.
local function put_broadcasts(list, earliest)
  local first = try('ZRANGE', BROADCASTS, 0, 0, 'WITHSCORES')
  if not first then return false end
  call('ZADD', BROADCASTS, unpack(list))
  nudge(earliest, first[2])
  return true
end

-- Takes the first n out of the broadcasts that wait.
local function take_first_broadcasts(n)
  if n > 0 then call('ZREMRANGEBYRANK', BROADCASTS, 0, n - 1) end
end
