-- Counters of topics. They are settled last: what they count has happened, whatever becomes of the script.

-- Has a topic stand in the index of all names, and where the housekeeping finds it.
local function know(topic)
  try('ZADD', NAMES, 0, topic)
  try('ZADD', SEEN, 'NX', 0, topic)
end

-- Counts a topic's messages in one of the places that no sorted set of its own counts, or what ever happened to them: a topic of
-- which something happens for the first time is known from then on. Returns how many there are; nil where that is foreign.
local function count(topic, what, by)
  local n = try('HINCRBY', TOPICS, topic .. ':' .. what, by)
  if n == 0 then
    try('HDEL', TOPICS, topic .. ':' .. what)
  elseif n == by and what ~= 'leased' then
    know(topic)
  end
  return n
end

-- What ever happened in a topic, as its counters tell, and what is set for it: nil where that is foreign.
local function ever(topic)
  local fields = {}
  for i, what in ipairs({ 'published', 'sent', 'acked', 'died', 'broadcasts', 'settings' }) do fields[i] = topic .. ':' .. what end
  return try('HMGET', TOPICS, unpack(fields))
end

-- Has a topic known no more that nothing ever happened in, and nothing is set for.
local function leave_if_unused(topic)
  for _, n in ipairs(ever(topic) or { true }) do
    if n then return end
  end
  try('ZREM', NAMES, topic)
  try('ZREM', SEEN, topic)
end

-- Counts what ever happened to the messages of all topics, those that were forgotten too: '*' is no topic.
local function count_all(what, by)
  if by > 0 then try('HINCRBY', TOPICS, '*:' .. what, by) end
end

local function foreign_counters()
  return redis.error_reply('the counters of topics are foreign: ' .. TOPICS)
end
