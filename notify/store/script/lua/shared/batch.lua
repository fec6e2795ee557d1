-- Messages that are published in one call, topic by topic, or imported.

-- The due time of a message, its expiry if it has one, whether it is a broadcast that waits, whether its record begins with a +, its
-- key, its group, and what it had in an export, if it is from one.
local function read(when, us, now)
  local asked = tonumber(when)
  if asked then return (Enter.due_of(asked, us, now)) end -- as most
  if string.byte(when) == 123 then
    local had = cjson.decode(when)
    return had.died or had.due, had.expires, had.broadcast and not had.died, had.marked, had.key, had.group, had
  end
  local mark, all, number, ttl, key, group = string.match(when, '^(!?)(%*?)(%-?%d+)/?(%d*)#?([^@%s]*)@?(%S*)$')
  local due, from = Enter.due_of(tonumber(number), us, now, all == '*')
  ttl = tonumber(ttl)
  return due, ttl and math.min(from + ttl, MAX), all == '*', mark == '!', key ~= '' and key or nil, group ~= '' and group or nil
end

local function append(list, one, two)
  local n = #list
  list[n + 1], list[n + 2] = one, two
end

-- Notes what a message had in an export. Returns its record's tail, and the times of its record if it had some.
local function restore(b, member, had, tail)
  b.restored = b.restored or { used = {}, extras = {}, reasons = {} }
  if had.used then append(b.restored.used, member, had.used) end
  if had.extras then
    append(b.restored.extras, member, string.sub(tail, -had.extras))
    tail = string.sub(tail, 1, -had.extras - 1)
  end
  if had.died then append(b.restored.reasons, member, had.reason or '') end
  return tail, had.times or had.died and b.at
end

-- Why a message may not be in its group, or wait for one; nil: it may.
local function refused_by_group(b, topic, member, group, had)
  local known = table_in(table_in(b, 'groups'), topic)
  if had and had.after_group then
    return (Callbacks.refusal({ topic = topic, member = member, group = group, after_group = had.after_group, came = not had.waits }))
  end
  if group and known[group] == nil then known[group] = Callbacks.refusal({ topic = topic, group = group }) or false end
  return known[group] or nil
end

-- Notes the group of a message before its record is written.
local function note_group(b, lists, topic, id, group, had)
  if group then
    lists.groups = lists.groups or { died = {} }
    append(lists.groups, id, group)
    if had then lists.groups.restored, lists.groups.died[id] = true, had.died end
  end
  if had and had.waits then
    Callbacks.await({ member = topic .. ':' .. id, after_group = had.after_group, on_dead = had.on_dead }, b.now, true)
  end
end

-- Adds the i-th message, of a topic that has these lists, by its place, unless its id is in use. Returns its due time, or why it is refused.
local function add(b, i, topic, lists, member, when, tail)
  local due, expiry, broadcast, marked, key, group, had = read(when, b.us, b.now)
  local taken = b.taken[i]
  if b.seen[member] or taken and not Messages.is_freed(member, taken, b.now) then return -1 end
  if due > MAX then return -2 end
  if group or had and had.after_group then
    local why = refused_by_group(b, topic, member, group, had)
    if why then return why end
    note_group(b, lists, topic, string.sub(member, #topic + 2), group, had)
  end
  if due ~= b.last then -- most of a call have the same due time
    b.last, b.last_text, b.last_times = due, text(due), Messages.times_of(due, b.now)
  end
  local times, kind = b.last_times, due > b.now and 'scheduled' or 'ready'
  if broadcast then times, kind = b.at, 'broadcast' end
  if had then
    local had_times
    tail, had_times = restore(b, member, had, tail)
    times = had_times or times
    if had.died then kind = 'dead' end
  end
  b.seen[member] = i
  if key then
    lists.keys = lists.keys or {}
    append(lists.keys, string.match(member, ':(.*)$'), key)
    if had and had.drop then Seats.may_drop(member, true) end
  end
  append(b.records, member, (marked and '+' or '') .. times .. tail)
  if expiry then append(b.expiries, expiry, member) end
  local list = lists[kind]
  if not list then
    list = { earliest = due, latest = due }
    lists[kind] = list
  end
  append(list, b.last_text, member)
  if due < list.earliest then list.earliest = due end
  if due > list.latest then list.latest = due end
  return due
end

-- Removes the messages of a list that got no place. A fault, if given, becomes the reply of each.
local function take_back(b, list, fault)
  local gone = {}
  for j = 2, #list, 2 do
    gone[#gone + 1] = list[j]
    if fault then b.reply[b.seen[list[j]] + 1] = fault end
  end
  if b.restored then Dead.take_reasons(gone) end
  Messages.forget(gone)
end

-- Puts a list of a topic, some of which may have keys, into its place, counts it and rings; or takes it back.
local function place(b, topic, kind, list, keyed)
  local n = #list / 2
  local fault, n_ready
  if kind == 'dead' then
    list.state = Dead.put_dead(topic, list, list.earliest, list.latest) and kind
    fault = not list.state and -6
  else
    list.state, fault, n_ready = Enter.place(topic, list, list.earliest, kind == 'broadcast', b.now, not keyed)
  end
  if fault then
    take_back(b, list, fault)
    list.state = 'refused'
  elseif kind == 'broadcast' then
    Counters.count(topic, 'broadcasts', n)
  else
    b.published = b.published + n
    Counters.count_published(topic, n, b.now)
  end
  if list.state == 'scheduled' and keyed and current.may_drop then
    for j = 2, #list, 2 do Seats.keep_may_drop(topic, list[j]) end
  end
  if list.state == 'ready' then Rings.ring(topic, n_ready, b.us) end
end

local KINDS = { 'broadcast', 'scheduled', 'ready', 'dead' }

local function each_list(b, f)
  for t, lists in ipairs(b.lists) do
    for _, kind in ipairs(KINDS) do
      if lists[kind] then f(b, ARGV[2 * t], kind, lists[kind], lists.keys) end
    end
  end
end

local function take_back_unplaced(b, _, _, list)
  if not list.state then take_back(b, list) end
end

-- Publishes the messages of a call of publish.lua, and returns its reply.
function Batch.publish(us, now)
  if #ARGV == 6 and tonumber(ARGV[5]) then
    local reply = Enter.alone(ARGV[2], ARGV[4], tonumber(ARGV[5]), ARGV[6], us, now)
    if reply then return reply end
  end
  local topics, at = tonumber(ARGV[1]), text(now)
  local first, members = 2 + 2 * topics, {}
  for i = first, #ARGV, 3 do members[#members + 1] = ARGV[i] end
  local b = {
    us = us, now = now, at = at, last = now, last_text = at, last_times = at, taken = call('HMGET', MESSAGES, unpack(members)),
    reply = { now }, seen = {}, records = {}, expiries = {}, lists = {}, published = 0,
  }
  local i = 0
  for t = 1, topics do
    b.lists[t] = {}
    for _ = 1, tonumber(ARGV[1 + 2 * t]) do
      i = i + 1
      local arg = first + 3 * (i - 1)
      b.reply[i + 1] = add(b, i, ARGV[2 * t], b.lists[t], ARGV[arg], ARGV[arg + 1], ARGV[arg + 2])
    end
  end
  if #b.records == 0 then return b.reply end
  local restored = b.restored or { used = {}, extras = {}, reasons = {} }
  if #b.expiries > 0 then call('ZADD', EXPIRIES, unpack(b.expiries)) end
  if #restored.used > 0 then call('HSET', ATTEMPTS, unpack(restored.used)) end
  if #restored.extras > 0 then call('HSET', EXTRAS, unpack(restored.extras)) end
  if #restored.reasons > 0 then Dead.put_reasons(restored.reasons) end
  for t, lists in ipairs(b.lists) do
    if lists.keys then Seats.note(ARGV[2 * t], lists.keys) end
    if lists.groups then Groups.join(ARGV[2 * t], lists.groups, now) end
  end
  call('HSET', MESSAGES, unpack(b.records))
  local placed, fault = pcall(each_list, b, place)
  Counters.count_all('published', b.published)
  if not placed then
    each_list(b, take_back_unplaced)
    error(fault, 0)
  end
  Endings.settle()
  for member in pairs(current.blocked or {}) do b.reply[#b.reply + 1] = -b.seen[member] end
  return b.reply
end
