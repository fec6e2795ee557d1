-- Pauses a topic: nothing of it is handed out, and nobody is rung for it, until it is resumed.
-- ARGV[3]: topic. Reply: nothing.
local _, now = clock()
if not try('HSET', TOPICS, ARGV[3] .. ':paused', 1) then
  return redis.error_reply('the counters of topics are foreign: ' .. TOPICS)
end
try('ZADD', TOPICS .. '-paused', 'NX', now, ARGV[3])
know(ARGV[3])
return {}
