-- Counters of topics. Scripts update them last: what they count has happened then, even if the script stops.

-- Adds a topic to the index of all names, and to that of the housekeeping.
function Counters.remember(topic)
  try('ZADD', NAMES, 0, topic)
  try('ZADD', SEEN, 'NX', 0, topic)
end

-- Adds to a counter of a topic: of its messages in a place that has no sorted set for each topic, or of what ever happened to
-- them. Remembers a topic when one of its counters begins. Returns the new count; nil if it is foreign.
function Counters.count(topic, what, by)
  local n = try('HINCRBY', TOPICS, topic .. ':' .. what, by)
  if n == 0 then
    try('HDEL', TOPICS, topic .. ':' .. what)
  elseif n == by and what ~= 'leased' then
    Counters.remember(topic)
  end
  return n
end

-- The counters of what ever happened in a topic, and its settings; nil if they are foreign.
function Counters.ever(topic)
  local fields = {}
  for i, what in ipairs({ 'published', 'sent', 'acked', 'died', 'dropped', 'broadcasts', 'settings' }) do fields[i] = topic .. ':' .. what end
  return try('HMGET', TOPICS, unpack(fields))
end

-- Takes a topic out of these indexes if nothing ever happened in it, and it has no settings.
function Counters.forget_if_unused(topic)
  for _, n in ipairs(Counters.ever(topic) or { true }) do
    if n then return end
  end
  try('ZREM', NAMES, topic)
  try('ZREM', SEEN, topic)
end

-- Adds to a counter of all topics, forgotten ones too: '*' is no topic.
function Counters.count_all(what, by)
  if by > 0 then try('HINCRBY', TOPICS, '*:' .. what, by) end
end

-- The number of the bucket of a lateness in us: each is wider by the square root of two than the one before, from 100 us on. LATE has them as
-- characters, from A on.
function Counters.late_bucket(us)
  if us < 100 then return 0 end
  local bucket = math.log(us) * 2.8853900817779268 - 12.287712379549449 -- 2 log2(us / 100) + 1
  return bucket < 43 and bucket - bucket % 1 or 43
end

-- Counts messages of a topic as published. Notes the topic when it is new, and when the count passes a multiple of 64, in the indexes of
-- all names and of busy topics.
function Counters.count_published(topic, by, now)
  local MOST_BUSY = 1000 -- topics that are kept as busy
  local n = try('HINCRBY', TOPICS, topic .. ':published', by)
  if not n or n ~= by and n % 64 >= by then return end
  if n == by then
    Counters.remember(topic)
    if n < 64 and (try('ZCARD', BUSY) or MOST_BUSY) >= MOST_BUSY then return end
  end
  try('ZADD', BUSY, now, topic)
  try('ZREMRANGEBYRANK', BUSY, 0, -MOST_BUSY - 1)
end

function Counters.foreign_counters()
  return redis.error_reply('the counters of topics are foreign: ' .. TOPICS)
end
