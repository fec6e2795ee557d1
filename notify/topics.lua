-- Counts the messages of one topic.
-- KEYS[10..12]: ready, waiting and dead of the topic, KEYS[13]: its log. ARGV[3]: topic.
-- Reply: scheduled, ready, leased, dead, waiting, published, acked, for how many ms the oldest ready one is due, broadcasts
--   that wait, that were sent, and that are in the log.
local _, now = clock()
local topic = ARGV[3] .. ':'
local counts = try('HMGET', TOPICS, topic .. 'scheduled', topic .. 'leased', topic .. 'published', topic .. 'acked',
  topic .. 'broadcasts', topic .. 'sent') or {}
local oldest = (try('ZRANGE', KEYS[10], 0, 0, 'WITHSCORES') or {})[2]
local function number(count)
  return tonumber(count or 0) or 0
end
return {
  number(counts[1]), try('ZCARD', KEYS[10]) or 0, number(counts[2]), try('ZCARD', KEYS[12]) or 0,
  try('ZCARD', KEYS[11]) or 0, number(counts[3]), number(counts[4]), oldest and now - oldest or 0,
  number(counts[5]), number(counts[6]), try('XLEN', KEYS[13]) or 0,
}
