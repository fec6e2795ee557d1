-- Takes an inbox off the waiting lists of topics. It may have been rung for messages that its subscriber now leaves: others are rung
-- for them.
-- ARGV: the inbox, then topics.
local us = clock()
for i = 2, #ARGV do
  local topic = ARGV[i]
  try('ZREM', waiting_of(topic), ARGV[1])
  local ready = try('ZCARD', ready_of(topic)) or 0
  if ready > 0 then Rings.ring(topic, ready, us) end
end
return {}
