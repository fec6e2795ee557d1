-- What becomes of a message if its id is in use.

-- The state of a message that has a record, its time in that state, and whether it is a broadcast that waits.
local function place_of(topic, member)
  local time = call('ZSCORE', LEASED, member)
  if time then return 'leased', time end
  time = try('ZSCORE', scheduled_of(topic), member)
  if time then return 'scheduled', time end
  time = try('ZSCORE', ready_of(topic), member)
  if time then return 'ready', time end
  time = try('ZSCORE', BROADCASTS, member)
  if time then return 'scheduled', time, true end
  time = try('ZSCORE', dead_of(topic), member)
  if time then return 'dead', time end
  time = Seats.blocked_since(topic, member)
  return time and 'blocked' or '', time
end

-- The record of a message, as if published at a time.
local function record_of(one, at)
  return (one.marked and '+' or '') .. (one.broadcast and text(at) or Messages.times_of(one.due, at)) .. one.tail
end

local function noted_in(one)
  return (one.unique and not one.broadcast and ' unique=' .. text(one.unique) or '') .. (one.await and ' await=' .. text(one.await) or '')
end

-- Puts a message into its place, or puts it off in the scheduled set if it is there. Returns its state, or nil and why it is refused.
local function place(c, one)
  if one.time_before and not one.broadcast and one.due > c.now and one.due >= one.time_before then
    Places.put_off_scheduled(one.topic, one.member, one.due)
    c.later[one.topic], one.is_put_off = true, true
    return 'scheduled'
  end
  local state, fault = Enter.place(one.topic, { text(one.due), one.member }, one.due, one.broadcast, c.now, not one.key)
  if state == 'ready' then c.rings[one.topic] = (c.rings[one.topic] or 0) + 1 end
  return state, fault
end

-- Takes a message that was not dead out of the place that it had, unless it is still there.
local function take_from(one, state, was_broadcast, is)
  local topic, member = one.topic, one.member
  if was_broadcast and not one.broadcast then
    if try('ZREM', BROADCASTS, member) == 1 then Counters.count(topic, 'broadcasts', -1) end
  elseif state == 'scheduled' and not was_broadcast then
    if is ~= 'scheduled' or one.broadcast then Places.take_scheduled(topic, member) elseif not one.is_put_off then Places.index_scheduled(topic) end
  elseif state == 'ready' and (is ~= 'ready' or one.broadcast) then
    Places.take_ready(topic, member)
  end
end

-- Gives a message its key, if it had another or none, and returns what takes that back. With another key it leaves its seat, or the line.
local function put_key(one)
  local topic, member = one.topic, one.member
  local id = string.sub(member, #topic + 2)
  local key, since = Seats.key_of(topic, member)
  if key == one.key then
    if one.drop or not key or not Seats.decide(topic, member) then return function() end end
    return function()
      Seats.may_drop(member, true)
      Seats.keep_may_drop(topic, member)
    end
  end
  local function undo()
    if key then Seats.restore(topic, member, key, since) else Seats.forget(topic, { member }) end
  end
  or_undo(undo, function()
    Seats.forget(topic, { member })
    if one.key then Seats.note(topic, { id, one.key }) end
  end)
  return undo
end

-- Notes the group of a message, and that it waits for one, if so. Returns what takes back that it is in a group.
local function put_group(c, one)
  local undo
  if one.group or one.grouped then undo = Groups.put(one.topic, string.sub(one.member, #one.topic + 2), one.group, c.now) end
  if one.after_group then Callbacks.await(one, c.now) end
  return undo
end

-- Writes a message and places it. Before is the record of the one that it replaces; that and its place come back if it cannot be placed.
-- What leads to a message is written before it, and what is noted of the one before goes when that is out of its place. Was is what is
-- noted of that, if anything.
local function write(c, one, before, stays, was)
  local member, record = one.member, record_of(one, one.at or c.now)
  local noted, unkey, ungroup = noted_in(one), nil, nil
  local function undo()
    if not before then return Messages.forget({ member }) end
    if unkey then unkey() end
    call('HSET', MESSAGES, member, before)
    if ungroup then ungroup() end
    Extras.put_noted(member, was or '')
  end
  if noted ~= '' and not Extras.put_noted(member, noted) then return nil, -9 end
  if one.expiry then call('ZADD', EXPIRIES, before and 'GT' or 'CH', one.expiry, member) end -- at first the later of the two
  if one.key or one.keyed then unkey = put_key(one) end
  or_undo(function()
    if unkey then unkey() end
    if ungroup then ungroup() end
  end, function()
    ungroup = put_group(c, one)
    call('HSET', MESSAGES, member, record)
  end)
  local state, fault = stays, nil
  if not stays then
    or_undo(undo, function() state, fault = place(c, one) end)
    if fault then
      undo()
      return nil, fault
    end
  end
  c.latest = {}
  if one.is_put_off then
    local bare = noted == '' and not one.expiry and not one.key and not one.group
    c.latest = { member = member, record = record, due = one.due, bare = bare }
  end
  return state
end

-- Removes what is kept beside the message before.
local function renew(one)
  if one.expiry then call('ZADD', EXPIRIES, one.expiry, one.member) else try('ZREM', EXPIRIES, one.member) end
  try('HDEL', ATTEMPTS, one.member)
  if noted_in(one) == '' then try('HDEL', EXTRAS, one.member) end
end

local function refused(why, who)
  return { 'refused', why, 0, who or '' }
end

-- Refuses a message that may not be in its group, or wait for one.
local function refused_by_group(one)
  if not one.group and not one.after_group then return nil end
  local why, who = Callbacks.refusal(one)
  return why and refused(why, who)
end

local function create(c, one)
  local no = refused_by_group(one)
  if no then return no end
  local state, fault = write(c, one)
  if fault then return refused(fault) end
  if one.drop and state == 'scheduled' then Seats.keep_may_drop(one.topic, one.member) end
  if one.broadcast then Counters.count(one.topic, 'broadcasts', 1) else Enter.count(one.topic, c.now) end
  return { 'created', one.due, 0, state }
end

-- When a debounced message is due that was first published at a time.
local function debounced_due(c, one, at)
  return math.max(math.min(one.due, one.max_wait and at + one.max_wait or one.due), c.now)
end

-- Follows a leased message, beside the record of which it waits; but not one that is to be cancelled, with which it would go.
local function follow(c, one)
  local noted = Extras.noted_of(one.member)
  if not noted then return refused(-9) end
  if Extras.extra(noted, 'stop') then return refused(-7) end
  local record = Extras.successor_in(noted)
  local before, outcome = record and Messages.first_due_of(record) or 0, 'created'
  if record and one.if_exists == 'refuse' then return refused(-1) end
  if record and one.if_exists == 'keep' then return { 'kept', before, before, 'leased' } end
  one.due = math.max(one.due, c.now)
  if record then
    outcome = 'replaced'
    if one.if_exists == 'debounce' then
      outcome, one.at = 'moved', Messages.published_of(record) or c.now
      one.due = debounced_due(c, one, one.at)
    end
  end
  Extras.put_noted(one.member, string.match(noted, '^[^\n]*') .. '\n' .. record_of(one, one.at or c.now))
  if not record then Enter.count(one.topic, c.now) end
  return { outcome, one.due, before, 'leased' }
end

-- Takes the place of a message that waits, is ready or is dead, and of its successor.
local function replace(c, one, before, state, time, was_broadcast)
  local debounce, stays = one.if_exists == 'debounce', nil
  -- All but the first two count as two each.
  local kept = one.member == c.latest.member and c.latest.bare and 0
    or call('EXISTS', ATTEMPTS, EXPIRIES, EXTRAS, EXTRAS, keys_of(one.topic), keys_of(one.topic), grouped_of(one.topic), grouped_of(one.topic))
  local noted, beside = kept >= 2 and try('HMGET', EXTRAS, '*', one.member) or {}, kept >= 2 and Groups.beside(one.topic) or 0
  one.await = Extras.extra(noted[2], 'await') -- whoever awaits the one before awaits this one
  one.keyed, one.grouped = beside % 2 == 1, beside >= 2
  one.time_before = state == 'scheduled' and not was_broadcast and time
  local seated = one.keyed and one.key and (state == 'ready' or state == 'scheduled') and Seats.key_of(one.topic, one.member) == one.key
    and Seats.has_seat(one.topic, one.key, string.sub(one.member, #one.topic + 2))
  if debounce then
    one.at = Messages.published_of(before) or c.now
    local asked = one.due
    one.due = debounced_due(c, one, one.at)
    if one.due <= c.now and time <= c.now then -- it is due, and stays so in its place, unless another key has other seats
      one.due, stays = time, not ((one.keyed or one.key) and Seats.key_of(one.topic, one.member) ~= one.key) and state or nil
    end
    if one.expiry then one.expiry = math.min(one.expiry - asked + one.due, MAX) end
  end
  local function die_again()
    if state ~= 'dead' then return end
    call('ZADD', dead_of(one.topic), time, one.member)
    Seats.stay(one.topic, one.member)
    Ends.forget_ends({ one.member })
  end
  if state == 'dead' and noted[1] then Dead.note_removed(one.topic, { one.member }, { try('HGET', DEATHS, one.member) }, c.now) end
  if state == 'dead' then call('ZREM', dead_of(one.topic), one.member) end -- first: it has another record then
  if state == 'dead' and one.keyed then Seats.leave(one.topic, { one.member }) end -- its key is no longer barred
  local is, fault
  or_undo(die_again, function() is, fault = write(c, one, before, stays, noted[2]) end)
  if fault then
    die_again()
    return refused(fault)
  end
  if state == 'dead' then Dead.take_dead(one.topic, { one.member }) end
  if not stays then take_from(one, state, was_broadcast, is) end
  if is == 'scheduled' and not (seated and one.due <= c.now) then -- behind another that is overdue it is as due as before
    if one.keyed and one.key then Seats.leave(one.topic, { one.member }) end
    if one.drop then Seats.keep_may_drop(one.topic, one.member) end
  end
  if kept > 0 then renew(one) end
  if one.broadcast and not was_broadcast then Counters.count(one.topic, 'broadcasts', 1) end
  if state == 'dead' and not one.broadcast then Enter.count(one.topic, c.now) end
  return { debounce and 'moved' or 'replaced', one.due, state == 'dead' and 0 or time, is }
end

-- Publishes one message, as the table of modes and states in package notify says. A call of several keeps in a table, c, us and now;
-- rings: how many messages of a topic were made ready; later: topics with messages that were put off, whose scheduled sets the caller
-- indexes last; and latest: what is known of the last message that was put off, since many of a call may be of one id.
function Conflicts.publish(c, one)
  local from
  one.due, from = Enter.due_of(one.when, c.us, c.now, one.broadcast)
  one.expiry = one.ttl and not one.broadcast and not one.after_group and math.min(from + one.ttl, MAX)
  if one.key then Seats.may_drop(one.member, one.drop) end
  if one.due > MAX then return refused(-2) end
  one.if_exists = one.if_exists or 'refuse'
  local mode, known = one.if_exists, one.member == c.latest.member
  local before = known and c.latest.record or call('HGET', MESSAGES, one.member)
  if not before or Messages.is_freed(one.member, before, c.now) then return create(c, one) end
  if Messages.is_done(before) then return mode == 'keep' and { 'kept', 0, 0, 'done' } or refused(-1) end
  local state, time, was_broadcast = 'scheduled', c.latest.due, nil
  if not known then state, time, was_broadcast = place_of(one.topic, one.member) end
  time = math.max(math.min(tonumber(time or 0) or 0, MAX), 0)
  if state == 'leased' and one.after then return follow(c, one) end
  if mode == 'refuse' or state == '' then return refused(-1) end
  if state == 'leased' then return refused(-7) end
  if state == 'dead' and mode ~= 'replace' then return refused(-8) end
  if mode ~= 'replace' and (was_broadcast or false) ~= (one.broadcast or false) then return refused(-1) end
  if mode == 'keep' then return { 'kept', time, time, state } end
  local no = refused_by_group(one)
  if no then return no end
  return replace(c, one, before, state, time, was_broadcast)
end

-- Adds to a reply how many are left of the groups that messages of the call wait for: pairs of a message's place and that.
local function add_left(reply, callbacks)
  for i, member in pairs(callbacks) do
    local left = reply[4 * i - 2] ~= 'refused' and Callbacks.left_for(member, call('HGET', MESSAGES, member))
    if left then reply[#reply + 1], reply[#reply + 2] = i, left end
  end
end

-- Publishes the messages of a call of publish_as.lua, and returns its reply.
function Conflicts.publish_all(us, now)
  local c = { us = us, now = now, rings = {}, later = {}, latest = {} }
  local reply, callbacks = { now }, {}
  for i = 1, #ARGV, 4 do
    local one = cjson.decode(ARGV[i + 2])
    one.topic, one.member, one.tail = ARGV[i], ARGV[i + 1], ARGV[i + 3]
    if one.after_group then callbacks[(i + 3) / 4] = one.member end
    for _, value in ipairs(Conflicts.publish(c, one)) do reply[#reply + 1] = value end
  end
  for topic in pairs(c.later) do Places.index_scheduled(topic) end
  for topic, n in pairs(c.rings) do Rings.ring(topic, n, us) end
  if current.blocked or current.grouped or current.moved then Endings.settle() end
  if current.dropped then
    for i = 2, #ARGV, 4 do
      if current.dropped[ARGV[i]] then reply[i], reply[i + 3] = 'dropped', 'done' end
    end
  end
  add_left(reply, callbacks)
  return reply
end
