-- Dead letters. They are in the place of a topic, which need not be that of their member: a member that was in a place of another
-- topic is buried there, and a member without a topic in that of NOWHERE.

Dead.NOWHERE = '_'

-- Whether a member belongs to the dead letters of a place: it is of that topic, or of none. Elsewhere it is a stray: the message
-- of that name is another one.
function Dead.is_at_home(place, member)
  local topic = topic_of(member)
  return not topic or not is_topic(topic) or topic == place
end

function Dead.foreign_dead(topic)
  return redis.error_reply('the dead letters of ' .. topic .. ' are foreign: ' .. dead_of(topic))
end

-- Whether a member is among the dead letters of a place; with a time in ms only if it died then, '' for whenever.
function Dead.is_dead(place, member, when)
  local died = call('ZSCORE', dead_of(place), member)
  return died and (when == '' or math.floor(died) == tonumber(when))
end

-- Indexes a place by its oldest death, so that the housekeeping finds it when that is too old.
function Dead.note_oldest(place)
  local oldest = head_of(dead_of(place))
  if oldest then
    try('ZADD', OLDEST, text(oldest), place)
  else
    try('ZREM', OLDEST, place)
    try('ZREM', NEWEST, place)
  end
end

-- Writes reasons of deaths, a list of pairs of member and reason, before the members are put anywhere; and removes them again.
function Dead.put_reasons(list) try('HSET', DEATHS, unpack(list)) end
function Dead.take_reasons(members) try('HDEL', DEATHS, unpack(members)) end

-- Puts a list, pairs of time and member, among the dead letters of a place. Oldest and newest are the least and the greatest of
-- its times. It publishes nothing.
function Dead.put_dead(place, list, oldest, newest)
  local key = dead_of(place)
  if not try('ZCARD', key) then return false end
  try('ZADD', OLDEST, 'LT', oldest, place)
  try('ZADD', NEWEST, 'GT', newest, place)
  call('ZADD', key, unpack(list))
  return true
end

-- Takes topics that have no dead letters out of the index of newest deaths.
function Dead.forget_newest(topics)
  try('ZREM', NEWEST, unpack(topics))
end

-- Notes the removal of dead letters that died before there was an archive: it has the others. Reasons are those of their deaths.
function Dead.note_removed(place, members, reasons, now)
  local since, old, why, times = Extras.extra(try('HGET', EXTRAS, '*'), 'archive'), {}, {}, {}
  for i, died in ipairs(since and call('ZMSCORE', dead_of(place), unpack(members)) or {}) do
    if died and tonumber(died) < since and Dead.is_at_home(place, members[i]) then
      old[#old + 1], why[#why + 1], times[#times + 1] = members[i], reasons[i] or 'unknown', math.floor(died)
    end
  end
  if old[1] then Ends.note_ends(old, 'removed', why, now, nil, { times = times }) end
end

-- Removes dead letters for good. It leaves records alone that are not theirs: that of a member that died without a record is of a
-- message published since, and that of a stray is of another message. Now is given if the archive is to have them.
function Dead.remove_dead(place, members, now)
  local reasons = try('HMGET', DEATHS, unpack(members)) or {}
  if now and call('EXISTS', EXTRAS) == 1 then Dead.note_removed(place, members, reasons, now) end
  local records, explained = {}, {}
  for i, member in ipairs(members) do
    local own = Dead.is_at_home(place, member)
    if own and reasons[i] ~= NO_RECORD then records[#records + 1] = member end
    if own or reasons[i] == STRAY then explained[#explained + 1] = member end
  end
  if #records > 0 then Messages.forget(records, nil, 'dead') end
  if #explained > 0 then try('HDEL', DEATHS, unpack(explained)) end
  call('ZREM', dead_of(place), unpack(members))
end

-- Takes dead letters of a topic out, and keeps their records. All their attempts are left again, and they may be put off
-- as often.
function Dead.take_dead(topic, members)
  call('ZREM', dead_of(topic), unpack(members))
  try('HDEL', DEATHS, unpack(members))
  Leases.renew_attempts(members)
  if call('EXISTS', EXTRAS) == 0 then return end
  for _, member in ipairs(members) do Extras.put_extra(member, 'snoozed', nil) end
  Extras.drop_progress(members)
end

-- Removes the oldest dead letters of a place if there are more than it keeps, but not the one just added: at most two, so that
-- each death makes them fewer. The housekeeping writes how many to keep, and reads how many this removed.
local function keep_most(place, added, now)
  local most = tonumber(try('HGET', KEPT, 'most') or nil)
  local over = most and call('ZCARD', dead_of(place)) - most or 0
  if over <= 0 then return end
  local gone = {}
  for _, member in ipairs(call('ZRANGE', dead_of(place), 0, math.min(over, 2) - 1)) do
    if member ~= added and not Seats.bars(place, member) then gone[#gone + 1] = member end
  end
  if #gone == 0 then return end
  Dead.remove_dead(place, gone, now)
  try('HINCRBY', KEPT, 'removed', #gone)
end

-- Buries a member among the dead letters of a place, and tells programs of any language. Then the caller takes it out of its
-- old place. Returns false, and changes nothing, if the dead letters are foreign. One that has a successor leaves no dead letter: it
-- becomes one of current.heirs, and the caller calls publish_heirs when all are out of their places.
function Dead.bury(place, member, reason, attempts, now)
  local at_home, kept = Dead.is_at_home(place, member), call('EXISTS', EXTRAS, HOOKS, HOOKS) -- HOOKS counts as two
  local noted = kept % 2 == 1 and try('HMGET', EXTRAS, '*', member) or {}
  local followed = at_home and Extras.successor_in(noted[2]) ~= nil
  if followed then Leases.can_put_back() end
  if followed then table.insert(current.heirs, member) elseif not Dead.put_dead(place, { now, member }, now, now) then return false end
  if noted[1] or noted[2] then Ends.note_ends({ member }, 'dead', reason, now, noted, { used = attempts, bare = not at_home }) end
  local topic, id = string.match(member, '^([^:]+):(.*)$')
  if at_home then
    if not followed then try('HSET', DEATHS, member, reason) end
    if topic and is_topic(topic) then
      local beside = Groups.beside(topic)
      if beside % 2 == 1 then Seats.die(topic, member) end
      if beside >= 2 then Groups.touch(topic, { member }, 'dead') end
      Counters.count(topic, 'died', 1)
      Counters.count_all('died', 1)
    end
  else
    try('HSETNX', DEATHS, member, reason)
  end
  if topic then
    if kept >= 2 and is_topic(topic) then Ends.announce_death(topic, id, reason, attempts, now) end
    local told = cjson.encode({ topic = SHARDED and topic or nil, id = id, reason = reason, attempts = attempts })
    if SHARDED then tell_heard(DEATHS, told) else tell(death_of(topic), told) end
  end
  keep_most(place, member, now)
  return true
end

-- Undoes bury, if the caller cannot take the member out of its old place.
function Dead.unbury(place, member)
  try('HDEL', DEATHS, member)
  call('ZREM', dead_of(place), member)
  Ends.forget_ends({ member })
end
