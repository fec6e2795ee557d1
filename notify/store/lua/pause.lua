-- Pauses a topic: nothing of it is handed out, and nobody is rung for it, until it is resumed.
-- ARGV: topic.
-- Reply: nothing.
local topic = ARGV[1]
local _, now = clock()
if not try('HSET', TOPICS, topic .. ':paused', 1) then return foreign_counters() end
try('ZADD', PAUSED, 'NX', now, topic)
know(topic)
return {}
