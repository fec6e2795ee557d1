-- Resumes a topic, and rings for what became ready meanwhile.
-- KEYS[10..13]: ready, waiting, dead and schedule of the topic. ARGV[3]: topic. Reply: nothing.
local us = clock()
local was = try('HDEL', TOPICS, ARGV[3] .. ':paused')
if not was then return redis.error_reply('the counters of topics are foreign: ' .. TOPICS) end
try('ZREM', TOPICS .. '-paused', ARGV[3])
if was == 1 then leave_if_unused(ARGV[3]) end
local ready = try('ZCARD', KEYS[10]) or 0
if was == 1 and ready > 0 then ring(ARGV[3], KEYS[11], ready, us) end
return {}
