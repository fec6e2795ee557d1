-- Cancels a message, unless it is leased.
-- ARGV: topic, member.
-- Reply: the state that it had (leased: nothing was changed), or '' if there is none.
local topic, member = unpack(ARGV)
if call('ZSCORE', LEASED, member) then return { 'leased' } end
if forget_from(schedule_of(topic), member) then
  index_schedule(topic)
  return { 'scheduled' }
end
if forget_from(BROADCASTS, member) then
  count(topic, 'broadcasts', -1)
  forget_if_unused(topic)
  return { 'scheduled' }
end
if forget_from(ready_of(topic), member) then
  index_ready(topic)
  return { 'ready' }
end
if forget_from(dead_of(topic), member) then
  take_reasons({ member })
  return { 'dead' }
end
forget({ member })
return { '' }
