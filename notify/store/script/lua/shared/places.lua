-- The arrows of the state diagram (doc.go) between the scheduled sets and the ready sets: no other code writes to these.
--
-- A script that lacks a right stops in the middle, and what it wrote stays. So each script puts a message into its new place before
-- it takes it out of the old one, writes what leads to a message before the message, and updates counters and indexes last:
-- wherever it stops, the message is still carried or claimed, or it was never published.
--
-- A put changes nothing and returns false if a key is foreign. Lists hold pairs of time and member.

-- The answers of a script if a put returns false.
function Places.foreign_ready(topic)
  return redis.error_reply('the ready set of ' .. topic .. ' is foreign: ' .. ready_of(topic))
end

function Places.foreign_scheduled(topic)
  return redis.error_reply('the scheduled set of ' .. topic .. ' or the index of scheduled sets is foreign: '
    .. scheduled_of(topic) .. ', ' .. SCHEDULED)
end

function Places.foreign_broadcasts()
  return redis.error_reply('the set of broadcasts is foreign: ' .. BROADCASTS)
end

-- Puts a list into the ready set of its topic. Earliest is the least of its times. Then READY has the topic by the due time of the
-- first in its ready set, or by that of an earlier one that is gone: a claim does not change it, and notable.lua corrects what it
-- reads of it. The caller rings, when all else is done.
function Places.put_ready(topic, list, earliest)
  try('ZADD', READY, 'LT', earliest, topic)
  if try('ZADD', ready_of(topic), unpack(list)) then return true end
  try('ZREM', READY, topic)
  return false
end

-- Makes the whole scheduled set of a topic its ready set, which must be empty. Earliest is the first due time in it.
function Places.put_all_ready(topic, earliest)
  try('ZADD', READY, 'LT', earliest, topic)
  call('RENAME', scheduled_of(topic), ready_of(topic))
  try('ZREM', SCHEDULED, topic)
end

-- Takes a topic out of READY if nothing of it is ready. Call it after taking something out of its ready set.
function Places.index_ready(topic)
  if call('EXISTS', ready_of(topic)) == 0 then try('ZREM', READY, topic) end
end

-- Corrects the time of a topic in an index, READY or NEWEST, or takes the topic out if it has none.
function Places.correct_index(index, topic, time)
  if time then call('ZADD', index, time, topic) else call('ZREM', index, topic) end
end

-- Takes the oldest out of the ready set of a topic.
function Places.take_oldest_ready(topic, n)
  call('ZREMRANGEBYRANK', ready_of(topic), '0', n > 1 and n - 1 or '0')
  Places.index_ready(topic)
end

-- Takes a member out of the ready set of its topic. Returns whether it was there.
function Places.take_ready(topic, member)
  if try('ZREM', ready_of(topic), member) ~= 1 then return false end
  Places.index_ready(topic)
  return true
end

-- Indexes a topic in SCHEDULED by the first in its scheduled set, or takes it out if that is empty. Call it after taking something out.
function Places.index_scheduled(topic)
  local head = call('ZRANGE', scheduled_of(topic), 0, 0, 'WITHSCORES')[2]
  if head then try('ZADD', SCHEDULED, head, topic) else try('ZREM', SCHEDULED, topic) end
end

-- Puts a list into the scheduled set of its topic, and nudges the carrier if the first of all scheduled sets changed. Earliest is the least
-- of its times.
function Places.put_scheduled(topic, list, earliest)
  local key = scheduled_of(topic)
  local first, head = try('ZRANGE', SCHEDULED, 0, 0, 'WITHSCORES'), try('ZRANGE', key, 0, 0, 'WITHSCORES')
  if not first or not head then return false end
  if head[2] then earliest = math.min(earliest, head[2]) end
  call('ZADD', SCHEDULED, earliest, topic)
  call('ZADD', key, unpack(list))
  Rings.nudge(earliest, first[2])
  return true
end

-- Puts off a member in the scheduled set of its topic. It needs no nudge: the carrier comes too early, not too late. Call index_scheduled
-- after all.
function Places.put_off_scheduled(topic, member, ms)
  call('ZADD', scheduled_of(topic), ms, member)
end

-- Takes a member out of the scheduled set of its topic. Returns whether it was there.
function Places.take_scheduled(topic, member)
  if try('ZREM', scheduled_of(topic), member) ~= 1 then return false end
  Places.index_scheduled(topic)
  return true
end

-- Takes the first n out of the scheduled set of a topic.
function Places.take_first_scheduled(topic, n)
  if n > 0 then call('ZREMRANGEBYRANK', scheduled_of(topic), 0, n - 1) end
  Places.index_scheduled(topic)
end

-- Takes a foreign member out of SCHEDULED.
function Places.take_scheduled_topic(foreign)
  call('ZREM', SCHEDULED, foreign)
end

-- Postpones a foreign scheduled set: the carrier tries it again at a time.
function Places.postpone_scheduled_topic(topic, ms)
  call('ZADD', SCHEDULED, ms, topic)
end

-- Makes a member that can neither be moved nor buried wait in its place, a key, until a time. Units is how many units of the place's
-- scores are in a ms. Returns nil if the key is foreign, too.
function Places.postpone(place, member, ms, units)
  try('ZADD', EXPIRIES, 'XX', ms, member)
  return try('ZADD', place, text(ms * units), member)
end

-- Whether something of a topic is overdue, because no carrier runs, or it is behind. Then messages that are due at once wait behind
-- that in the scheduled set, so that order holds.
function Places.is_behind(topic, now)
  local head = tonumber(try('ZSCORE', SCHEDULED, topic) or nil)
  return head and head <= now
end

-- Puts a list of broadcasts into the place where they wait for the carrier.
function Places.put_broadcasts(list, earliest)
  local first = try('ZRANGE', BROADCASTS, 0, 0, 'WITHSCORES')
  if not first then return false end
  call('ZADD', BROADCASTS, unpack(list))
  Rings.nudge(earliest, first[2])
  return true
end

-- Takes the first n out of the broadcasts that wait.
function Places.take_first_broadcasts(n)
  if n > 0 then call('ZREMRANGEBYRANK', BROADCASTS, 0, n - 1) end
end
