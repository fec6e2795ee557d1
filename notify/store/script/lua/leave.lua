-- Takes an inbox off the waiting lists of topics. It may have been rung for messages that its subscriber now leaves, or handed one that
-- did not arrive: others are rung for them.
-- ARGV: the inbox, then of each topic its name, and when the last hand-over that the inbox received was made, in us, or 0.
local us, now = clock()
for i = 2, #ARGV, 2 do
  local topic = ARGV[i]
  Handover.leave(topic, ARGV[1], ARGV[i + 1], now)
  local ready = try('ZCARD', ready_of(topic)) or 0
  if ready > 0 then Rings.ring(topic, ready, us) end
end
return {}
