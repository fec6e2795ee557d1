-- Finds the messages, of any topics, whose end is not awaited any more: they ended, or are dead.
-- ARGV: members.
-- Reply: the positions of these, from 1.
local reply = {}
for i, noted in ipairs(try('HMGET', EXTRAS, unpack(ARGV)) or {}) do
  local topic = topic_of(ARGV[i])
  if not Extras.extra(noted, 'await') or try('ZSCORE', dead_of(topic), ARGV[i]) then reply[#reply + 1] = i end
end
return reply
