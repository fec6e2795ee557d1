-- Pauses a topic: nothing of it is handed out, and nobody is rung for it, until it is resumed.
-- ARGV[3]: topic. Reply: nothing.
if not try('HSET', TOPICS, ARGV[3] .. ':paused', 1) then
  return redis.error_reply('the counters of topics are foreign: ' .. TOPICS)
end
return {}
