-- Makes dead letters of a topic ready again, with all their attempts and their whole time to live, first due now; they wait in the
-- scheduled set if something of the topic is overdue. A broadcast waits for the carrier.
-- ARGV: topic, then members, each with the time of its death in ms, '' for whenever it died.
-- Reply: how many were requeued, how many were left because their record is missing, and how many it read: it stops when their
--   records are ENOUGH.
local topic = ARGV[1]
local ENOUGH = 262144 -- bytes of records, since each is rewritten
local us, now = clock()
local due, broadcasts, left, looked, size = { members = {} }, { members = {} }, 0, 0, 0
for i = 2, #ARGV, 2 do
  if size >= ENOUGH then break end
  local member = ARGV[i]
  looked = looked + 1
  if Dead.is_dead(topic, member, ARGV[i + 1]) then
    local record = call('HGET', MESSAGES, member)
    if record and topic_of(member) == topic and try('HGET', DEATHS, member) ~= NO_RECORD then
      size = size + #record
      local options = Messages.options_of(record)
      if options.ttl and not options.broadcast then call('ZADD', EXPIRIES, math.min(now + options.ttl, MAX), member) end
      if call('EXISTS', EXTRAS) == 1 then Extras.put_extra(member, 'snoozed') end
      local list = options.broadcast and broadcasts or due
      list[#list + 1] = now
      list[#list + 1] = member
      list.members[#list.members + 1] = member
    else
      left = left + 1
    end
  end
end
if #broadcasts > 0 then
  local state, fault = Enter.place(topic, broadcasts, now, true, now)
  if not state then return Enter.foreign(topic, fault) end
  Dead.take_dead(topic, broadcasts.members)
  Counters.count(topic, 'broadcasts', #broadcasts.members)
end
if #due > 0 then
  Leases.turn_receipts(topic)
  local beside = Groups.beside(topic)
  if beside % 2 == 1 then Seats.revive(topic, due.members) end
  if beside >= 2 then Groups.revive(topic, due.members) end
  local state, fault, ready = Enter.place(topic, due, now, false, now)
  if not state then return Enter.foreign(topic, fault) end
  Dead.take_dead(topic, due.members)
  for _, member in ipairs(due.members) do Messages.put_first_due(member, now) end
  if state == 'ready' then Rings.ring(topic, ready, us) end
end
return { #due.members + #broadcasts.members, left, looked }
