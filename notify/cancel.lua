-- Cancels a message, unless it is leased.
-- KEYS[10..13]: ready, waiting, dead and schedule of its topic. ARGV[3]: topic, ARGV[4]: member.
-- Reply: the state it was in (leased: nothing was changed), or none.
local topic, member = ARGV[3], ARGV[4]
if call('ZSCORE', LEASED, member) then return { 'leased' } end
local state
if unschedule(topic, KEYS[13], member) then
  state = 'scheduled'
elseif try('ZREM', BROADCASTS, member) == 1 then
  state = 'scheduled'
  count(topic, 'broadcasts', -1)
elseif call('ZREM', KEYS[10], member) == 1 then
  state = 'ready'
  if call('EXISTS', KEYS[10]) == 0 then try('SREM', READY, topic) end
elseif call('ZREM', KEYS[12], member) == 1 then
  state = 'dead'
  try('HDEL', DEATHS, member)
end
forget({ member })
return { state }
