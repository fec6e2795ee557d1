-- Publishes messages that say what happens if their id is in use, follow a leased one, or keep their id taken after their end: one after
-- the other, each as if alone. What is due at once becomes ready; it is not handed over.
-- ARGV: for each message: topic, member, JSON of what it asks for, its record without its times. The JSON has when: -DELAY, 0 for at
--   once, or DUE, all in ms (as publish.lua); ttl, unique and max_wait in ms; broadcast; marked: its record is to begin with a +;
--   if_exists, missing: refuse; after: it follows one that is leased.
-- Reply: now in ms, then for each message: created, kept, replaced, moved or refused; its due time in ms (0: it ended, and its id is
--   taken), or why it is refused: -1 to -6 as publish.lua, -7 it is leased, -8 it is dead, -9 the key of extras is foreign; the due time
--   before in ms, 0 if there was none; its state, '' if it is refused.
local refusal, us, now = Memory.refuse_to_grow()
if refusal then return refusal end
local soonest = math.ceil(us / 1000)
local rings = {} -- number of messages made ready, for each topic that has some
local later = {} -- topics with messages that were put off: their scheduled sets are indexed once, last
local latest = {} -- what is known of the last message that was put off: many of a call may be of one id

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
  return time and 'dead' or '', time
end

-- The record of a message that is due at a time, as if published at another.
local function record_of(one, at)
  local times = one.due > at and not one.broadcast and text(at) .. ',' .. text(one.due - at) or text(at)
  return (one.marked and '+' or '') .. times .. one.tail
end

local function noted_in(one)
  return (one.unique and not one.broadcast and ' unique=' .. text(one.unique) or '') .. (one.await and ' await=' .. text(one.await) or '')
end

local function note_published_one(topic)
  local n = try('HINCRBY', TOPICS, topic .. ':published', 1)
  Counters.count_all('published', 1)
  if n and Counters.is_notable(n, 1) then Counters.note_published(topic, n, 1, now) end
end

-- Puts a message into its place, or puts it off in the scheduled set if it is there. Returns its state, or nil and why it is refused.
local function place(one)
  local list = { text(one.due), one.member }
  if one.broadcast then
    if Places.put_broadcasts(list, one.due) then return 'scheduled' end
    return nil, -4
  elseif one.time_before and one.due > now and one.due >= one.time_before then
    Places.put_off_scheduled(one.topic, one.member, one.due)
    later[one.topic], one.is_put_off = true, true
    return 'scheduled'
  elseif one.due > now then
    if Places.put_scheduled(one.topic, list, one.due) then return 'scheduled' end
    return nil, -5
  end
  local put, at_once = Places.place_due(one.topic, list, one.due, now)
  if not put then return nil, at_once and -3 or -5 end
  if at_once then rings[one.topic] = (rings[one.topic] or 0) + 1 end
  return at_once and 'ready' or 'scheduled'
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

-- Writes a message and places it. Before is the record of the one that it replaces; that and its place come back if it cannot be placed.
-- What leads to a message is written before it, and what is noted of the one before goes when that is out of its place. Was is what is
-- noted of that, if anything.
local function write(one, before, stays, was)
  local member, record = one.member, record_of(one, one.at or now)
  local noted = noted_in(one)
  local function undo()
    if not before then return Messages.forget({ member }) end
    call('HSET', MESSAGES, member, before)
    Extras.put_noted(member, was or '')
  end
  if noted ~= '' and not Extras.put_noted(member, noted) then return nil, -9 end
  if one.expiry then call('ZADD', EXPIRIES, before and 'GT' or 'CH', one.expiry, member) end -- at first the later of the two
  call('HSET', MESSAGES, member, record)
  local state, fault = stays, nil
  if not stays then
    or_undo(undo, function() state, fault = place(one) end)
    if fault then
      undo()
      return nil, fault
    end
  end
  latest = {}
  if one.is_put_off then latest = { member = member, record = record, due = one.due, bare = noted == '' and not one.expiry } end
  return state
end

-- Removes what is kept beside the message before.
local function renew(one)
  if one.expiry then call('ZADD', EXPIRIES, one.expiry, one.member) else try('ZREM', EXPIRIES, one.member) end
  try('HDEL', ATTEMPTS, one.member)
  if noted_in(one) == '' then try('HDEL', EXTRAS, one.member) end
end

local function refused(why)
  return { 'refused', why, 0, '' }
end

local function create(one)
  local state, fault = write(one)
  if fault then return refused(fault) end
  if one.broadcast then Counters.count(one.topic, 'broadcasts', 1) else note_published_one(one.topic) end
  return { 'created', one.due, 0, state }
end

-- When a debounced message is due that was first published at a time.
local function debounced_due(one, at)
  return math.max(math.min(one.due, one.max_wait and at + one.max_wait or one.due), now)
end

-- Follows a leased message, beside the record of which it waits.
local function follow(one)
  local noted = Extras.noted_of(one.member)
  if not noted then return refused(-9) end
  local record = Extras.successor_in(noted)
  local before, outcome = record and Messages.first_due_of(record) or 0, 'created'
  if record and one.if_exists == 'refuse' then return refused(-1) end
  if record and one.if_exists == 'keep' then return { 'kept', before, before, 'leased' } end
  one.due = math.max(one.due, now)
  if record then
    outcome = 'replaced'
    if one.if_exists == 'debounce' then
      outcome, one.at = 'moved', tonumber(string.match(record, '^%+?(%d+)')) or now
      one.due = debounced_due(one, one.at)
    end
  end
  Extras.put_noted(one.member, string.match(noted, '^[^\n]*') .. '\n' .. record_of(one, one.at or now))
  if not record then note_published_one(one.topic) end
  return { outcome, one.due, before, 'leased' }
end

-- Takes the place of a message that waits, is ready or is dead, and of its successor.
local function replace(one, before, state, time, was_broadcast)
  local debounce, stays = one.if_exists == 'debounce', nil
  local kept = one.member == latest.member and latest.bare and 0 or call('EXISTS', ATTEMPTS, EXPIRIES, EXTRAS, EXTRAS, EXTRAS) -- EXTRAS: three
  local noted = kept >= 3 and try('HMGET', EXTRAS, '*', one.member) or {}
  one.await = Extras.extra(noted[2], 'await') -- whoever awaits the one before awaits this one
  one.time_before = state == 'scheduled' and not was_broadcast and time
  if debounce then
    one.at = tonumber(string.match(before, '^%+?(%d+)')) or now
    local asked = one.due
    one.due = debounced_due(one, one.at)
    if one.due <= now and time <= now then one.due, stays = time, state end -- it is due, and stays so in its place
    if one.expiry then one.expiry = math.min(one.expiry - asked + one.due, MAX) end
  end
  local function die_again()
    if state ~= 'dead' then return end
    call('ZADD', dead_of(one.topic), time, one.member)
    Ends.forget_ends({ one.member })
  end
  if state == 'dead' and noted[1] then Dead.note_removed(one.topic, { one.member }, { try('HGET', DEATHS, one.member) }, now) end
  if state == 'dead' then call('ZREM', dead_of(one.topic), one.member) end -- first: it has another record then
  local is, fault
  or_undo(die_again, function() is, fault = write(one, before, stays, noted[2]) end)
  if fault then
    die_again()
    return refused(fault)
  end
  if state == 'dead' then Dead.take_dead(one.topic, { one.member }) end
  if not stays then take_from(one, state, was_broadcast, is) end
  if kept > 0 then renew(one) end
  if one.broadcast and not was_broadcast then Counters.count(one.topic, 'broadcasts', 1) end
  if state == 'dead' and not one.broadcast then note_published_one(one.topic) end
  return { debounce and 'moved' or 'replaced', one.due, state == 'dead' and 0 or time, is }
end

-- Publishes one message, as the table of modes and states in package notify says.
local function publish(one)
  local n = one.when
  if n < 0 then n = soonest - n elseif n == 0 then n = now end
  one.due, one.expiry = one.broadcast and n or math.max(n, now), one.ttl and not one.broadcast and math.min(n + one.ttl, MAX)
  if one.due > MAX then return refused(-2) end
  one.if_exists = one.if_exists or 'refuse'
  local mode, known = one.if_exists, one.member == latest.member
  local before = known and latest.record or call('HGET', MESSAGES, one.member)
  if not before or Messages.is_freed(one.member, before, now) then return create(one) end
  if Messages.is_done(before) then return mode == 'keep' and { 'kept', 0, 0, 'done' } or refused(-1) end
  local state, time, was_broadcast = 'scheduled', latest.due, nil
  if not known then state, time, was_broadcast = place_of(one.topic, one.member) end
  time = math.max(math.min(tonumber(time or 0) or 0, MAX), 0)
  if state == 'leased' and one.after then return follow(one) end
  if mode == 'refuse' or state == '' then return refused(-1) end
  if state == 'leased' then return refused(-7) end
  if state == 'dead' and mode ~= 'replace' then return refused(-8) end
  if mode ~= 'replace' and (was_broadcast or false) ~= (one.broadcast or false) then return refused(-1) end
  if mode == 'keep' then return { 'kept', time, time, state } end
  return replace(one, before, state, time, was_broadcast)
end

local reply = { now }
for i = 1, #ARGV, 4 do
  local one = cjson.decode(ARGV[i + 2])
  one.topic, one.member, one.tail = ARGV[i], ARGV[i + 1], ARGV[i + 3]
  for _, value in ipairs(publish(one)) do reply[#reply + 1] = value end
end
for topic in pairs(later) do Places.index_scheduled(topic) end
for topic, n in pairs(rings) do Rings.ring(topic, n, us) end
return reply
