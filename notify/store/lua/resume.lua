-- Resumes a topic, and rings for what became ready meanwhile.
-- ARGV: topic.
-- Reply: nothing.
local topic = ARGV[1]
local us = clock()
local was = try('HDEL', TOPICS, topic .. ':paused')
if not was then return foreign_counters() end
try('ZREM', PAUSED, topic)
if was == 1 then leave_if_unused(topic) end
local ready = try('ZCARD', ready_of(topic)) or 0
if was == 1 and ready > 0 then ring(topic, ready, us) end
return {}
