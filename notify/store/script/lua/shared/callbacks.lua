-- Callbacks: messages that wait for groups. One stands in the scheduled set of its topic, at the end of all times unless it was given a time,
-- and the head of its group names it. Once nobody is left of the group the carrier finds that, as ALARMS says, and makes it due.

local OF_GROUP = '=' -- before topic and name in ALARMS: no listener has that in its name
local LINKS = 16 -- groups of which one waits for the next
local TAKEN_FOR = 3600000 -- ms for which a complete group is kept, so that its name is taken
local UNUSED_FOR = 604800000 -- ms after which a group is forgotten that nobody waits for, and nobody is in
local SOME = 500 -- members that are looked for together

-- Topic and name of a group.
local function parts_of(group)
  return string.match(group, '^([^:]+):(.+)$')
end

-- Whether a message asks for a group, a callback or an end, as its record says. The text is looked for first: it is in few, and may be a header's.
local function says(record, what, value)
  if not record or not string.find(record, '"' .. what .. '":"' .. value .. '"', 1, true) then return false end
  return Messages.options_of(record)[what] == value
end

-- The callback of a group, and its record; nil if there is none, or it is gone.
local function callback_of(topic, g)
  local record = g and g.callback and topic_of(g.callback) and call('HGET', MESSAGES, g.callback)
  if record and says(record, 'after_group', topic .. ':' .. g.name) then return g.callback, record end
end

-- How many of a group have not ended: one that is dead has not, unless the callback goes all the same.
function Callbacks.left(topic, g)
  return try('ZCOUNT', grouped_of(topic), text(g.n), text(g.n) .. (g.go and '' or '.5')) or math.huge
end

-- The topic of the group that a message waits for, and that group; nil if it waits for none.
local function waited_for(member, record)
  if not record or not string.find(record, '"after_group":"', 1, true) then return nil end
  local topic, name = parts_of(Messages.options_of(record).after_group or '')
  if not topic then return nil end
  local n, since = Groups.find(topic, name)
  local g = n > 0 and not since and Groups.read(topic, n)
  if g and g.callback == member then return topic, g end
end

-- How many there are left of the group that a message waits for; nil if it waits for none.
function Callbacks.left_for(member, record)
  local topic, g = waited_for(member, record)
  return g and Callbacks.left(topic, g)
end

-- Has the carrier look at a group.
local function look_at(topic, name, now)
  Rings.look_at(OF_GROUP .. Groups.home_of(topic) .. ' ' .. name, now)
end

-- Topic and name of the group in an entry of ALARMS; nil if that is of another kind.
function Callbacks.group_in(entry)
  return string.match(entry, '^' .. OF_GROUP .. '(%S+) (%S+)$')
end

-- Whether a message would wait for itself: it is in a group that it waits for, or of which the callback is in one, and so on.
local function is_circle(one, topic, name)
  local in_topic, in_group = Groups.home_of(one.topic), one.group
  for _ = 1, LINKS do
    if in_topic == topic and in_group == name then return true end
    local n = Groups.find(in_topic, in_group)
    local member, record = callback_of(in_topic, n > 0 and Groups.read(in_topic, n))
    in_topic, in_group = member and Groups.home_of(topic_of(member)), Messages.options_of(record).group
    if not in_group or member == one.member then return false end
  end
  return true
end

-- Why a message may not be in its group, or wait for one, as publish_as.lua replies, and the group or the callback that is why; nil: it may.
function Callbacks.refusal(one)
  local group = one.group
  if group then
    local _, since = Groups.find(one.topic, group)
    if since then return -since, Groups.home_of(one.topic) .. ':' .. group end
  end
  if not one.after_group then return nil end
  local topic, name = parts_of(one.after_group)
  local n, complete = Groups.find(topic, name)
  if complete then return -complete, one.after_group end
  if one.came then return nil end
  local other = callback_of(topic, n > 0 and Groups.read(topic, n))
  if other and other ~= one.member then return -10, other end
  if group and is_circle(one, topic, name) then return -11 end
end

-- Makes a message the callback of its group. Call it before its record is written. Where that is being restored it comes once Callbacks.restore was
-- called, whoever publishes it.
function Callbacks.await(one, now, restored)
  local topic, name = parts_of(one.after_group)
  call('ZADD', GROUPED, 'NX', 0, topic)
  local n = Groups.open(topic, name, now)
  local g = Groups.read(topic, n) or { n = n, name = name, opened = now }
  if restored then g.restoring = 1 end
  g.callback, g.go, g.changed, g.complete, g.by = one.member, one.on_dead == 'go' and 1 or nil, now, nil, nil
  call('HSET', groups_of(topic), '#' .. text(n), Groups.head_of(g))
  if not g.restoring and Callbacks.left(topic, g) == 0 then look_at(topic, name, now) end
end

-- Notes in its group by when a message comes that waits for that: it was given a time.
function Callbacks.note_time(member, record, due)
  local topic, g = waited_for(member, record)
  if not g then return end
  g.by = due
  call('HSET', groups_of(topic), '#' .. text(g.n), Groups.head_of(g))
end

-- Has a group be as an export says, all messages of which were published again: only now it may be complete. Returns whether it was being restored;
-- one that was not stays as it is.
function Callbacks.restore(topic, had, now)
  local n, since = Groups.find(topic, had.name)
  local g = n > 0 and Groups.read(topic, n)
  if since or g and not g.restoring then return false end
  call('ZADD', GROUPED, 'NX', 0, topic)
  n = Groups.open(topic, had.name, now)
  g = g or { n = n, name = had.name }
  for _, how in ipairs({ 'acked', 'dead', 'dropped', 'cancelled' }) do
    if had[how] then g[how] = (g[how] or 0) + had[how] end
  end
  g.opened, g.changed, g.restoring = had.opened or g.opened or now, now, nil
  g.callback = g.callback or had.callback
  local member, record = callback_of(topic, g)
  g.callback, g.go = member, says(record, 'on_dead', 'go') and 1 or nil
  local waits = record and string.find(record, '"Bellhop-After-Acked":""', 1, true) -- it came by a time, or not yet
  if not waits then g.complete = had.complete end
  if member and not g.complete and Callbacks.left(topic, g) == 0 then look_at(topic, had.name, now) end
  call('HSET', groups_of(topic), had.name, text(n) .. (g.complete and ' ' .. text(g.complete) or ''), '#' .. text(n), Groups.head_of(g))
  return true
end

-- Whether a group has a message come, as the options of that say.
function Callbacks.waits_for(member, topic, name, options)
  local n, since = Groups.find(topic, name)
  local g = n > 0 and not since and Groups.read(topic, n)
  return g and g.name == name and g.callback == member and (g.go ~= nil) == (options.on_dead == 'go')
end

-- The callback of a group that is not complete, if that is another than a message.
function Callbacks.other(member, topic, name)
  local n, since = Groups.find(topic, name)
  local one = n > 0 and not since and callback_of(topic, Groups.read(topic, n))
  return one and one ~= member and one or nil
end

-- Makes a message that waits the callback of its group again, also where that is complete: for a repair.
function Callbacks.await_again(one, now)
  local topic, name = parts_of(one.after_group)
  local n, since = Groups.find(topic, name)
  local g = n > 0 and Groups.read(topic, n)
  if since then call('HSET', groups_of(topic), name, text(n)) end
  Callbacks.await(one, now, g and g.restoring)
end

-- The entries of those of some members that have one.
local function entries_of(topic, touched)
  local members, entries = {}, {}
  for member in pairs(touched) do members[#members + 1] = member end
  local names = Groups.entries_of(topic, members)
  for i, score in ipairs(names[1] and try('ZMSCORE', grouped_of(topic), unpack(names)) or {}) do
    local member = members[i]
    if score then
      entries[#entries + 1] = { name = names[i], member = member, how = touched[member], score = tonumber(score), n = math.floor(score) }
    end
  end
  return entries
end

-- What changes of the group of a number: its head, how many fewer will be left, and how many ended by how.
local function change_in(w, topic, n)
  w.changes[n] = w.changes[n] or { g = Groups.read(topic, n), fewer = 0, ended = {} }
  return w.changes[n]
end

local function add_end(change, how, n)
  change.ended[how] = (change.ended[how] or 0) + n
  change.changes = true
end

-- Finds which of some members are gone, or name another group by now, and which died or live again.
local function find_changes(w, topic, touched)
  local entries, members = entries_of(topic, touched), {}
  for i, entry in ipairs(entries) do members[i] = entry.member end
  local records, some = Messages.records_of(members), false
  for i = 1, #records do some = some or records[i] end
  local dead = some and try('ZMSCORE', dead_of(topic), unpack(members)) or {}
  for i = 1, #records do
    local entry, record = entries[i], records[i]
    local change = change_in(w, topic, entry.n)
    local g, was_dead, is_dead = change.g, entry.score > entry.n, dead[i] and true or false
    local stays = record and not Messages.is_done(record) and (not g or says(record, 'group', g.name))
    if not stays then
      w.gone[#w.gone + 1] = entry.name
      add_end(change, entry.how, 1)
      if not (g and g.go and was_dead) then change.fewer = change.fewer + 1 end
    elseif was_dead ~= is_dead then
      w.scores[#w.scores + 1], w.scores[#w.scores + 2] = entry.n + (is_dead and 0.5 or 0), entry.name
      change.changes = true
      if g and g.go then change.fewer = change.fewer + (is_dead and 1 or -1) end
    end
  end
end

local function settle_topic(topic, touched, moved, now)
  local w, heads = { gone = {}, scores = {}, changes = {} }, {}
  find_changes(w, topic, touched)
  for n, k in pairs(moved) do
    if k > 0 then add_end(change_in(w, topic, n), 'cancelled', k) end
  end
  for n, change in pairs(w.changes) do
    local g = change.g
    if g and change.changes then
      local waits = g.callback and not g.complete and not g.restoring
      if waits and Callbacks.left(topic, g) <= change.fewer then look_at(topic, g.name, now) end
      for how, k in pairs(change.ended) do g[how] = (g[how] or 0) + k end
      g.changed = now
      heads[#heads + 1], heads[#heads + 2] = '#' .. text(n), Groups.head_of(g)
    end
  end
  if w.gone[1] then call('ZREM', grouped_of(topic), unpack(w.gone)) end
  if w.scores[1] then call('ZADD', grouped_of(topic), unpack(w.scores)) end
  if heads[1] then try('HSET', groups_of(topic), unpack(heads)) end
end

-- Takes those out of their groups that ended in this call, or were given other groups, and notes who died. Has the carrier look at a group of which
-- nobody will be left, before that is so. It comes last in a call: what fails before leaves entries of nobody.
function Callbacks.settle()
  local _, now = clock()
  local touched, moved = current.grouped or {}, current.moved or {}
  current.grouped, current.moved = nil, nil
  for topic in pairs(moved) do table_in(touched, topic) end
  for topic, members in pairs(touched) do settle_topic(topic, members, moved[topic] or {}, now) end
end

-- Makes a callback due, with how the members of its group ended. Returns whether it could: the index of scheduled sets may be foreign.
local function make_due(topic, g, member, record, now)
  local all, purged = try('ZCOUNT', grouped_of(topic), '(' .. text(g.n), text(g.n) .. '.5') or 0, g.dead or 0
  local line, body = string.match(record, '^([^\n]*)(.*)$')
  for how, n in pairs({ Acked = g.acked or 0, Dead = all + purged, Dropped = g.dropped or 0, Cancelled = g.cancelled or 0 }) do
    line = string.gsub(line, '("Bellhop%-After%-' .. how .. '":")"', '%1' .. text(n) .. '"')
  end
  local ttl = Messages.options_of(record).ttl
  if ttl then call('ZADD', EXPIRIES, math.min(now + ttl, MAX), member) end
  call('HSET', MESSAGES, member, line .. body)
  Messages.put_first_due(member, now)
  return Places.put_scheduled(topic_of(member), { now, member }, now)
end

-- The callback of a group if it is scheduled, and when it was published, in ms; nil: there is none, it is gone, or it came.
function Callbacks.waiting(topic, g)
  local member, record = callback_of(topic, g)
  if member and try('ZSCORE', scheduled_of(topic_of(member)), member) then return member, Messages.published_of(record) end
end

-- Whether the callback of a group, which is gone, came by a time before: it was not cancelled.
local function came_by_time(g, now) return (g.by or math.huge) <= now end

-- How a group is: restoring; open while nothing waits for it; waiting; held while only dead letters keep its callback back; or complete: that came.
-- Then how many of it live and are dead, and its callback, '' if it has none.
function Callbacks.state_of(topic, g)
  local alive = try('ZCOUNT', grouped_of(topic), text(g.n), text(g.n)) or 0
  local dead = try('ZCOUNT', grouped_of(topic), '(' .. text(g.n), text(g.n) .. '.5') or 0
  if g.complete then return 'complete', alive, dead, g.callback or '' end
  local callback = callback_of(topic, g)
  if g.restoring then return 'restoring', alive, dead, callback or '' end
  if callback then return dead > 0 and alive == 0 and not g.go and 'held' or 'waiting', alive, dead, callback end
  local _, now = clock()
  if came_by_time(g, now) then return 'complete', alive, dead, g.callback or '' end
  return 'open', alive, dead, ''
end

-- What is known of a group: its name and state; how many of it are left, are or were dead, and were acknowledged, dropped and cancelled; its
-- callback, '' if it has none; and in ms when it was opened, and since when it is complete, 0 if it is not.
function Callbacks.describe(topic, g)
  local state, alive, dead, callback = Callbacks.state_of(topic, g)
  return {
    g.name, state, alive + (g.go and 0 or dead), dead + (g.dead or 0), g.acked or 0, g.dropped or 0, g.cancelled or 0, callback,
    text(g.opened or 0), text(g.complete or 0),
  }
end

-- Whether a callback waits, and did not come by a time before: since when it is scheduled.
local function still_waits(member)
  return try('ZSCORE', scheduled_of(topic_of(member)), member) and (Leases.used_in(try('HGET', ATTEMPTS, member)) or 0) == 0
    and not Extras.extra(try('HGET', EXTRAS, member), 'snoozed')
end

-- Has no callback of a topic's groups come until a time in ms, while a repair makes these anew.
function Callbacks.hold(topic, upto)
  try('ZADD', GROUPED, text(upto), Groups.home_of(topic))
end

-- Makes the callback of a group due if nobody is left: then the group is complete. One that was cancelled is forgotten. Returns false if it is to look again
-- later, of how many bytes the record was, and whether a repair holds it.
function Callbacks.look(topic, name, now)
  if tonumber(try('ZSCORE', GROUPED, topic) or 0) > now then return false, 0, true end
  local n, since = Groups.find(topic, name)
  local g = n > 0 and not since and Groups.read(topic, n)
  if not g or not g.callback or g.restoring or Callbacks.left(topic, g) > 0 then return true, 0 end
  local member, record = callback_of(topic, g)
  if member and still_waits(member) and not make_due(topic, g, member, record, now) then return false, #record end
  g.changed = now
  if member or came_by_time(g, now) then g.complete = now else g.callback, g.go, g.by = nil, nil, nil end
  call('HSET', groups_of(topic), name, text(n) .. (g.complete and ' ' .. text(now) or ''), '#' .. text(n), Groups.head_of(g))
  return true, #(record or '')
end

-- Those of some members of a topic whose entries may be wrong: they are in no place, or their score does not say whether they are dead.
local function doubtful_of(topic, members, score_of)
  local doubtful, ids, found = {}, {}, {}
  for i, member in ipairs(members) do ids[i] = string.sub(member, #topic + 2) end
  for _, place in ipairs({ LEASED, ready_of(topic), scheduled_of(topic) }) do
    for i, score in ipairs(try('ZMSCORE', place, unpack(members)) or {}) do found[i] = found[i] or score end
  end
  local dead, blocked = try('ZMSCORE', dead_of(topic), unpack(members)) or {}, try('HMGET', keys_of(topic), unpack(ids)) or {}
  for i, member in ipairs(members) do
    local lives = found[i] or blocked[i] and string.find(blocked[i], ' %d')
    local is_dead = dead[i] and not lives
    if not lives and not dead[i] or is_dead ~= (score_of[member] % 1 > 0) then doubtful[#doubtful + 1] = member end
  end
  return doubtful
end

-- Forgets a group that is over, or has the carrier look at it if nobody is left.
local function mend_group(topic, g, now)
  local nobody = (try('ZCOUNT', grouped_of(topic), text(g.n), text(g.n) .. '.5') or math.huge) == 0
  if g.complete then
    if nobody and now - g.complete >= TAKEN_FOR then Groups.forget(topic, g) end
  elseif callback_of(topic, g) or came_by_time(g, now) then
    if not g.restoring and Callbacks.left(topic, g) == 0 then look_at(topic, g.name, now) end
  elseif nobody and now - (g.changed or 0) >= UNUSED_FOR then
    Groups.forget(topic, g)
  elseif g.by then -- it was cancelled before
    g.by = nil
    call('HSET', groups_of(topic), '#' .. text(g.n), Groups.head_of(g))
  end
end

-- Looks at a page of n members of groups of a topic, and at one of groups: entries of nobody are taken away, and what is over is forgotten. A cursor is -
-- once all were seen. Returns the cursors for the next pages.
function Callbacks.mend(topic, members, groups, n, now)
  local page = members ~= '-' and try('ZSCAN', grouped_of(topic), members, 'COUNT', n) or { '0', {} }
  local all_of, score_of = {}, {} -- by the topic, which is this one or a branch of it
  for i = 1, #page[2], 2 do
    local member = Groups.member_of(topic, page[2][i])
    local all = table_in(all_of, topic_of(member))
    all[#all + 1], score_of[member] = member, tonumber(page[2][i + 1])
  end
  for own, all in pairs(all_of) do
    for from = 1, #all, SOME do
      Groups.touch(own, doubtful_of(own, { unpack(all, from, math.min(from + SOME - 1, #all)) }, score_of))
    end
  end
  local heads = groups ~= '-' and try('HSCAN', groups_of(topic), groups, 'COUNT', math.ceil(n / 10)) or { '0', {} }
  for i = 1, #heads[2], 2 do
    local number = string.match(heads[2][i], '^#(%d+)$')
    local g = number and Groups.read(topic, tonumber(number))
    if g then mend_group(topic, g, now) end
  end
  return page[1] == '0' and '-' or page[1], heads[1] == '0' and '-' or heads[1]
end
