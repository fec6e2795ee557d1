-- Counts the messages of one topic.
-- KEYS[9..11]: ready, waiting and dead of the topic. ARGV[3]: topic.
-- Reply: scheduled, ready, leased, dead, waiting, published, acked, for how many ms the oldest ready one is due.
local _, now = clock()
local counts = try('HMGET', TOPICS, ARGV[3] .. ':scheduled', ARGV[3] .. ':leased', ARGV[3] .. ':published', ARGV[3] .. ':acked') or {}
local oldest = (try('ZRANGE', KEYS[9], 0, 0, 'WITHSCORES') or {})[2]
local function number(count)
  return tonumber(count or 0) or 0
end
return {
  number(counts[1]), try('ZCARD', KEYS[9]) or 0, number(counts[2]), try('ZCARD', KEYS[11]) or 0,
  try('ZCARD', KEYS[10]) or 0, number(counts[3]), number(counts[4]), oldest and now - oldest or 0,
}
