-- How messages end, once they are out of their places: ids become free or stay taken, and successors are published.

-- Frees up to n of the ids whose time is over. Returns whether there may be more.
function Endings.free_over(n, now)
  local members = try('ZRANGE', TAKEN, '-inf', now, 'BYSCORE', 'LIMIT', 0, n) or {}
  if #members == 0 then return false end
  local done, records = {}, Messages.records_of(members)
  for i, record in ipairs(records) do
    if Messages.is_done(record) then done[#done + 1] = members[i] end
    if Messages.is_kept(record) then Messages.forget_kept(members[i]) end
  end
  if #done > 0 then call('HDEL', MESSAGES, unpack(done)) end
  call('ZREM', TAKEN, unpack(members, 1, #records))
  return #members == n or #records < #members
end

-- Removes up to n of those that a topic keeps, those that would go first first, if there are more than most; but not one. An id that
-- its publisher wants taken for longer stays so. Returns how many it removed.
function Endings.trim_done(topic, most, n, now, but)
  local key = done_of(topic)
  local over = math.min((try('ZCARD', key) or 0) - most, n)
  local members, removed = over > 0 and call('ZRANGE', key, 0, but and over or over - 1) or {}, 0
  for i, record in ipairs(Messages.records_of(members)) do
    local member = members[i]
    if member ~= but and removed < over then
      local taken = Messages.is_kept(record) and tonumber(string.match(record, '^=%d+,{[^\n]*"taken":(%d+)') or 0)
      if taken and taken > now then
        try('ZADD', TAKEN, text(taken), member)
        call('HSET', MESSAGES, member, '=' .. text(taken))
        Messages.forget_kept(member)
      elseif taken then
        Messages.is_freed(member, record, math.huge)
      else
        call('ZREM', key, member)
      end
      removed = removed + 1
    end
  end
  return removed
end

-- Keeps the id of a message taken for some ms, instead of the message, which ended as how says. Each makes those that are over fewer. The caller
-- removes what is noted of the message behind that.
function Endings.keep_taken(member, ms, us, how)
  local over = math.min(math.ceil(us / 1000) + ms, MAX)
  Endings.free_over(2, math.floor(us / 1000))
  Seats.forget(topic_of(member), { member }, how)
  try('HDEL', ATTEMPTS, member)
  try('ZREM', EXPIRIES, member)
  try('ZADD', TAKEN, over, member)
  call('HSET', MESSAGES, member, '=' .. text(over))
end

-- Publishes the successor of a message, which is in no place and ended as how says, in its stead, and calls ended once that is in its place. If it
-- stops before that, the message has its record again.
function Endings.publish_successor(member, noted, us, now, how, ended)
  local topic, record, before = topic_of(member), Extras.successor_in(noted), call('HGET', MESSAGES, member)
  local options, due = Messages.options_of(record), Messages.first_due_of(record) or now
  local state
  local key_before = Seats.key_of(topic, member)
  local function undo()
    Extras.put_noted(member, noted)
    if key_before then Seats.note(topic, { string.sub(member, #topic + 2), key_before }) end
    if before then call('HSET', MESSAGES, member, before) end
  end
  or_undo(undo, function()
    try('HDEL', ATTEMPTS, member)
    if options.ttl then try('ZADD', EXPIRIES, math.min(due + options.ttl, MAX), member) else try('ZREM', EXPIRIES, member) end
    Extras.put_noted(member, options.unique and ' unique=' .. text(options.unique) or '')
    Seats.forget(topic, { member }, how)
    if options.key then Seats.note(topic, { string.sub(member, #topic + 2), options.key }) end
    if options.drop then Seats.may_drop(member, true) end
    call('HSET', MESSAGES, member, record)
    state = Enter.place(topic, { due, member }, due, false, now)
    if options.drop and state == 'scheduled' then Seats.keep_may_drop(topic, member) end
  end)
  if ended then ended() end
  if not state then Dead.bury(topic, member, 'its place is foreign (WRONGTYPE)', 0, now) end -- if that is foreign, too, a repair finds the record
  if state == 'ready' then Rings.ring(topic, 1, us) end
end

-- Publishes the successors of messages that died. Call it once these are out of their places. If it fails, current.heirs still has those that
-- did not end, and the caller puts them back.
function Endings.publish_heirs(us, now)
  local function ended() table.remove(current.heirs) end
  while #current.heirs > 0 do
    local member = current.heirs[#current.heirs]
    Endings.publish_successor(member, try('HGET', EXTRAS, member), us, now, 'dead', ended)
  end
end

-- Ends messages as end_messages does, of which something is noted, or which the archive may take. Noted is what EXTRAS holds of * and of
-- them.
local function retire(members, noted, state, reasons, with)
  local us, now = clock()
  Ends.note_ends(members, state, reasons, now, noted, with)
  or_undo(function() Ends.forget_ends(members) end, function()
    for i = #members, 1, -1 do
      local member, its = members[i], noted[i + 1]
      local unique = Extras.extra(its, 'unique')
      if Extras.successor_in(its) then
        Endings.publish_successor(member, its, us, now, state, function() table.remove(members, i) end)
      elseif unique then
        Endings.keep_taken(member, unique, us, state)
        table.remove(members, i)
        try('HDEL', EXTRAS, member)
      end
    end
    if #members > 0 then
      Messages.forget(members, nil, state)
      for i = #members, 1, -1 do members[i] = nil end
    end
  end)
end

-- Ends messages of a topic that are acked or dropped, which is the state: publishes their successors, or keeps their ids taken as long as
-- they ask for, or frees them. If it fails, the list still has those that did not end, and the caller puts them back. Reasons and with are
-- those of note_ends.
function Endings.end_messages(members, state, reasons, with)
  local noted = call('EXISTS', EXTRAS) == 1 and try('HMGET', EXTRAS, '*', unpack(members)) or {}
  for i = 1, #noted do
    if noted[i] then return retire(members, noted, state, reasons, with) end
  end
  Messages.forget(members, nil, state)
  for i = #members, 1, -1 do members[i] = nil end
end

-- Cancels leased messages of a topic with their successors, as was asked for while they were leased. Leases are their scores; own are the
-- settings of the topic, nil if the caller does not know them.
function Endings.cancel_leased(topic, members, leases, own)
  Leases.can_put_back()
  Limits.leave(topic, members, own)
  local n = Leases.take_leased(members)
  or_undo(function()
    for i, member in ipairs(members) do Leases.put_leased({ leases[i], member }) end
  end, function()
    Ends.note_ends(members, 'cancelled')
    Messages.forget(members)
  end)
  Counters.count(topic, 'leased', -n)
end

-- Counts messages of a topic that were dropped, once they ended: nothing else is kept of them.
function Endings.count_dropped(topic, n)
  Counters.count(topic, 'dropped', n)
  Counters.count_all('dropped', n)
end

-- Drops those that are to be dropped where they would be blocked, and are; of their successors, too.
local function drop_blocked()
  local drops = Seats.take_drops()
  while next(drops) do
    for topic, gone in pairs(drops) do
      local n = #gone
      for _, member in ipairs(gone) do table_in(current, 'dropped')[member] = true end
      Endings.end_messages(gone, 'dropped', 'busy: another of its key was under way')
      Endings.count_dropped(topic, n)
    end
    drops = Seats.take_drops()
  end
end

-- Rings for what this call made ready of topics of which slots became free, and for what those let go that the slots before did not.
local function ring_for(freed, rings)
  local us = clock()
  for topic, slots in pairs(freed) do
    local ready = try('ZCARD', ready_of(topic)) or 0
    local n = (rings[topic] or 0) + math.min(slots.n, math.max(ready - slots.before, 0))
    if n > 0 and ready > 0 then Rings.ring(topic, math.min(n, ready), us) end
  end
end

-- Does what comes last in a call, when all else is done: gives back the slots of leases that ended; takes the seats away that messages left,
-- and calls up the next; drops what is not to wait; takes those that ended out of their groups; and rings for the slots.
function Endings.settle()
  local freed = current.left and Limits.give_back()
  if current.leaving then Seats.settle() end
  if current.blocked then drop_blocked() end
  if current.grouped or current.moved then Callbacks.settle() end
  if freed then ring_for(freed, Limits.held_rings()) end
end
