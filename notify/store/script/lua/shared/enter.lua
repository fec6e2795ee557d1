-- The one way in: a message that is published, follows another, is requeued or imported gets its place by its time.

-- When a message is due, in ms: asked is -DELAY, 0 for at once, or DUE. DUE in the past means now except for broadcasts. Then from when
-- its time to live counts.
function Enter.due_of(asked, us, now, broadcast)
  local due = asked
  if asked < 0 then due = math.ceil(us / 1000) - asked elseif asked == 0 then due = now end -- so a delay is never too short
  return broadcast and due or math.max(due, now), due
end

-- Puts a list of a topic, which is due at once, or later, or of broadcasts, into its place: what is due at once waits behind what is
-- overdue, and is blocked if its key has no seat free. Earliest is the least of its times. Plain: none has a key. Returns the state it has
-- there, or nil and why it is refused: a number, as publish.lua replies; and how many are ready, for which the caller rings, when all else
-- is done.
function Enter.place(topic, list, earliest, broadcast, now, plain)
  if broadcast then
    if Places.put_broadcasts(list, earliest) then return 'scheduled' end
    return nil, -4
  end
  if earliest > now or Places.is_behind(topic, now) then
    if Places.put_scheduled(topic, list, earliest) then return 'scheduled' end
    return nil, -5
  end
  local n
  if plain then n = Places.put_ready(topic, list, earliest) and #list / 2 else n = Seats.put_ready(topic, list, earliest) end
  if not n then return nil, -3 end
  return n > 0 and 'ready' or 'blocked', nil, n
end

-- The answer of a script to which place returned why it is refused.
function Enter.foreign(topic, fault)
  if fault == -4 then return Places.foreign_broadcasts() end
  return fault == -3 and Places.foreign_ready(topic) or Places.foreign_scheduled(topic)
end

-- Counts a message as published.
function Enter.count(topic, now)
  Counters.count_published(topic, 1, now)
  Counters.count_all('published', 1)
end

-- Publishes a message that asks for nothing but a time: with as few steps as there are, since most calls do. It is handed over if a
-- subscriber can take it. Returns the reply of publish.lua; nil, and changes nothing, if anything is unusual.
function Enter.alone(topic, member, asked, tail, us, now)
  local due = Enter.due_of(asked, us, now)
  if due > MAX then return { now, -2 } end
  local record = Messages.times_of(due, now) .. tail
  if call('HSETNX', MESSAGES, member, record) == 0 then return nil end
  local taker, nobody, state
  local placed = pcall(function()
    if due <= now and #record <= Handover.LARGEST then taker, nobody = Handover.taker_of(topic) end
    if taker and Places.is_behind(topic, now) then taker = nil end
    if taker then Handover.put_handed(taker, member, 0, us) else state = Enter.place(topic, { due, member }, due, false, now, true) end
  end)
  if not placed or not taker and not state then
    call('HDEL', MESSAGES, member)
    return nil
  end
  Enter.count(topic, now)
  if taker and Handover.send_handed(taker, topic, due, member, 0, record, us) then return { now, due, 1 } end
  if state == 'ready' then Rings.ring(topic, 1, us, nobody) end
  return { now, due }
end
