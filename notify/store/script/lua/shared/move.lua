-- What the places that are carried have in common. A call of carry.lua keeps in a table, c: us and now; batch, how many due members it
-- moves at the most, and slow, how many of those that take longer; what it replies by name; and when the first in each place is due, in
-- us, in heads.

Move.LATER = 60000 -- ms until a member that can neither be carried nor buried is tried again

-- What is due in a place up to a time, with its times; nil if the key is foreign.
function Move.due_in(key, upto, limit)
  return try('ZRANGE', key, '-inf', upto, 'BYSCORE', 'LIMIT', 0, limit, 'WITHSCORES')
end

function Move.used_by(member)
  return Leases.used_in(try('HGET', ATTEMPTS, member)) or 0
end

-- Buries a member of a topic, or of none, that is in a key of a place. If its dead letters are foreign, makes it wait there. Returns
-- whether it is buried: only then, and only afterwards, the caller takes it out of the key, and counts that. Returns nil if it can do
-- neither, since the key is foreign, too.
function Move.bury(c, key, units, topic, member, reason, attempts)
  if not Dead.bury(topic or Dead.NOWHERE, member, reason, attempts, c.now) then
    if Places.postpone(key, member, c.now + Move.LATER, units) then return false end
    return nil
  end
  local n = #c.buried
  c.buried[n + 1], c.buried[n + 2], c.buried[n + 3] = member, reason, attempts
  return true
end

-- Takes messages, a list, out of their place and ends them. Finish takes those that ended off the list; if it fails with some left, back
-- undoes take.
function Move.end_from(take, back, left, finish)
  Leases.can_put_back()
  or_undo(function()
    if #left > 0 then back() end
  end, function()
    take()
    finish()
  end)
end

-- Drops a message of a topic.
function Move.drop(c, take, back, topic, member, reason, attempts)
  local left = { member }
  Move.end_from(take, back, left, function() Endings.end_messages(left, 'dropped', reason, { used = attempts }) end)
  Endings.count_dropped(topic, 1)
  local n = #c.dropped
  c.dropped[n + 1], c.dropped[n + 2], c.dropped[n + 3] = member, reason, attempts
end

-- Makes a list, pairs of time and member, ready, but what is blocked. Least is the first of its times. Returns the reason if the ready set is
-- foreign.
function Move.make_ready(c, topic, list, least)
  local n = #list / 2
  if c.keyed then n = Seats.put_ready(topic, list, least) elseif not Places.put_ready(topic, list, least) then n = nil end
  if not n then return 'ready set is foreign (WRONGTYPE)' end
  if n > 0 then Rings.ring(topic, n, c.us) end
  c.moved = c.moved + #list / 2
end

-- Publishes the successors of what died, and is out of its places, once f has counted that, if it is given. Messages whose successors
-- cannot be published are leased for no time, so that they die again.
function Move.publish_heirs(c, f)
  or_undo(function()
    for _, member in ipairs(current.heirs) do Leases.put_leased({ text(c.us), member }) end
    for _, member in ipairs(current.heirs) do Counters.count(topic_of(member), 'leased', 1) end
  end, function()
    if f then f() end
    Endings.publish_heirs(c.us, c.now)
  end)
end
