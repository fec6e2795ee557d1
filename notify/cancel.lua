-- Cancels a message, unless it is leased.
-- KEYS[10..13]: ready, waiting, dead and schedule of its topic. ARGV[3]: topic, ARGV[4]: member.
-- Reply: the state it was in (leased: nothing was changed), or none.
local topic, member = ARGV[3], ARGV[4]
if call('ZSCORE', LEASED, member) then return { 'leased' } end

-- Takes the message out of a place, if it is there, and forgets it.
local function take_from(key)
  local score = try('ZSCORE', key, member)
  if not score then return false end
  call('ZREM', key, member)
  or_undo(function() call('ZADD', key, score, member) end, forget, { member })
  return true
end

if take_from(KEYS[13]) then
  set_head(topic, KEYS[13])
  return { 'scheduled' }
end
if take_from(BROADCASTS) then
  count(topic, 'broadcasts', -1)
  leave_if_unused(topic)
  return { 'scheduled' }
end
if take_from(KEYS[10]) then
  leave_ready(topic, KEYS[10])
  return { 'ready' }
end
if take_from(KEYS[12]) then
  try('HDEL', DEATHS, member)
  return { 'dead' }
end
forget({ member })
return {}
