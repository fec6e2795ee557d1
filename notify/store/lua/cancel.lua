-- Cancels a message, unless it is leased.
-- ARGV: topic, member.
-- Reply: the state it was in (leased: nothing was changed), or ''.
local topic, member = unpack(ARGV)
if call('ZSCORE', LEASED, member) then return { 'leased' } end
if forget_from(schedule_of(topic), member) then
  settle_schedule(topic)
  return { 'scheduled' }
end
if forget_from(BROADCASTS, member) then
  count(topic, 'broadcasts', -1)
  leave_if_unused(topic)
  return { 'scheduled' }
end
if forget_from(ready_of(topic), member) then
  settle_ready(topic)
  return { 'ready' }
end
if forget_from(dead_of(topic), member) then
  take_reasons({ member })
  return { 'dead' }
end
forget({ member })
return { '' }
