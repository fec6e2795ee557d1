-- Cancels a message with its successor, unless it is leased; or frees the id of one that ended; or cancels a successor alone.
-- ARGV: topic, member, 1 to cancel its successor alone, 2 to cancel nothing that is neither scheduled, ready nor blocked, 3 to have it
--   cancelled, if it is leased, when the lease ends in any way but an acknowledgement, or 4 for both of these; with 2
--   and 4 when it was published, in ms, to cancel no other of its id, '' for whenever.
-- Reply: the state that it had (leased: nothing was changed, or with 3 and 4 it was marked; done: it had ended, and its id was taken), or
--   '' if there is none. For a successor leased. Of one that was marked the name of the worker that has it follows, '' if that is unknown.
local topic, member, what, published = unpack(ARGV)
if what == '1' then
  local noted = Extras.noted_of(member)
  if not Extras.successor_in(noted) then return { '' } end
  Extras.put_noted(member, string.match(noted, '^[^\n]*'))
  return { 'leased' }
end
if not Messages.is_of(member, published) then return { '' } end
local lease = call('ZSCORE', LEASED, member)
if lease and what ~= '3' and what ~= '4' then return { 'leased' } end
if lease then
  local _, now = clock()
  if not Extras.extra(Extras.noted_of(member), 'stop') and not Extras.put_extra(member, 'stop', now) then
    return redis.error_reply('what is noted beside messages is foreign: ' .. EXTRAS)
  end
  return { 'leased', Attempts.holder_of(topic, lease) or '' }
end
if what == '2' or what == '4' then
  local waits = try('ZSCORE', scheduled_of(topic), member) or try('ZSCORE', BROADCASTS, member) or try('ZSCORE', ready_of(topic), member)
  if not waits and not Seats.blocked_since(topic, member) then return { '' } end
end
if call('EXISTS', EXTRAS) == 1 then Ends.note_ends({ member }, 'cancelled') end
if Messages.forget_from(scheduled_of(topic), member) then
  Places.index_scheduled(topic)
  return { 'scheduled' }
end
if Messages.forget_from(BROADCASTS, member) then
  Counters.count(topic, 'broadcasts', -1)
  Counters.forget_if_unused(topic)
  return { 'scheduled' }
end
if Messages.forget_from(ready_of(topic), member) then
  Places.index_ready(topic)
  return { 'ready' }
end
local key, since = Seats.key_of(topic, member)
if since then
  or_undo(function() Seats.restore(topic, member, key, since) end, Messages.forget, { member })
  return { 'blocked' }
end
if Messages.forget_from(dead_of(topic), member) then
  Dead.take_reasons({ member })
  return { 'dead' }
end
local record = call('HGET', MESSAGES, member)
local _, now = clock()
if Messages.is_done(record) and not Messages.is_freed(member, record, now) then
  Messages.is_freed(member, record, math.huge)
  return { 'done' }
end
Messages.forget({ member })
return { '' }
