-- Changes the due time of a scheduled, ready or blocked message, or of a broadcast that waits; its time to live counts from there. One
-- that is due later gives up its seat. Unless the message has used up an attempt, that of its first attempt changes, too; else it is
-- noted when it was moved.
-- ARGV: topic, member, when: -DELAY, 0 for at once, or DUE, all in ms. DUE in the past means now except for broadcasts, and a time to
--   live counts from DUE; when it was published, in ms, to move no other of its id, '' for whenever.
-- Reply: the state that it had, '' if there is none, and if that was scheduled, ready or blocked: now in ms, 1 for a broadcast, and its due
--   time in ms, -2 past the year 9999; then 1 if it is blocked now, or 0, unless it is a broadcast.
local topic, member, when, published = unpack(ARGV)
if not Messages.is_of(member, published) then return { '' } end
local us, now = clock()
if call('ZSCORE', LEASED, member) then return { 'leased' } end
local key, ready = scheduled_of(topic), ready_of(topic)
local broadcast = try('ZSCORE', BROADCASTS, member)
local scheduled = broadcast or try('ZSCORE', key, member)
local state = scheduled and 'scheduled' or call('ZSCORE', ready, member) and 'ready' or Seats.blocked_since(topic, member) and 'blocked'
if not state then
  if call('ZSCORE', dead_of(topic), member) then return { 'dead' } end
  return { '' }
end

local due, asked = Enter.due_of(tonumber(when), us, now, broadcast)
if due > MAX then return { state, now, 0, -2, 0 } end
if broadcast then
  Places.put_broadcasts({ due, member }, due) -- it is in that set, so the set is not foreign
  return { state, now, 1, due }
end

-- Whether another message of the topic is overdue.
local function is_behind_another()
  local first_two = try('ZRANGE', key, 0, 1, 'WITHSCORES') or {}
  local head = tonumber(first_two[first_two[1] == member and 4 or 2])
  return head and head <= now
end

local later, n_ready = due > now or is_behind_another(), 0
if later and (scheduled == nil or not try('ZCARD', SCHEDULED)) then return Places.foreign_scheduled(topic) end
local record = call('HGET', MESSAGES, member)
local ttl = Messages.options_of(record).ttl
local expiry = ttl and math.min(asked + ttl, MAX)
if expiry then call('ZADD', EXPIRIES, 'GT', expiry, member) end -- at first the later of the two, so that it never expires too early

if later then
  Places.put_scheduled(topic, { due, member }, due)
  if scheduled then
    Places.index_scheduled(topic) -- it may have been the first there, due earlier
  elseif state == 'ready' then
    Places.take_ready(topic, member)
  end
  if due > now or state == 'blocked' then Seats.leave(topic, { member }) end -- behind another that is overdue it is as due as before
else
  n_ready = Seats.put_ready(topic, { due, member }, due)
  if not n_ready then return Places.foreign_ready(topic) end
  if scheduled then Places.take_scheduled(topic, member) end
end
if expiry then call('ZADD', EXPIRIES, expiry, member) end
if Leases.used_in(try('HGET', ATTEMPTS, member)) == 0 then Messages.put_first_due(member, due) else Extras.put_extra(member, 'moved', now) end
Callbacks.note_time(member, record, due)
if n_ready > 0 then Rings.ring(topic, n_ready, us) end
Endings.settle()
return { state, now, 0, due, (current.blocked or {})[member] and 1 or 0 }
