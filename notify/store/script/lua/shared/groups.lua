-- Groups. Messages of a topic, and of its branches, that name one are its members: another message, the callback, waits until the last of them has
-- ended, see shared/callbacks.lua. A branch has no groups of its own: its keys of groups are those of the topic before the @.
--
-- grouped_of has ID → N of each member, and @BRANCH:ID → N of one in a branch; N.5 while it is dead, where N is the number of its group. An entry is
-- written before the record that names the group, and removed behind that, last in a call. So wherever a script stops, no member is without one: a
-- group may be held by an entry of nobody, until the housekeeping finds that.
-- groups_of has of each group NAME → N, and behind a space since when it is complete; and #N → its head: NAME, then NAME=NUMBER of each, a space
-- before it, and behind a newline the member of the callback, if there is one. And * → the last N. The counts in a head decide nothing.

local NUMBERS = { 'opened', 'changed', 'acked', 'dead', 'dropped', 'cancelled', 'go', 'by', 'restoring', 'complete' }

-- The topic that has the groups of a topic's messages.
function Groups.home_of(topic)
  return string.match(topic, '^[^@]*')
end

-- What stands before an id in the entry of a message of a topic.
function Groups.before_id(topic)
  local branch = string.match(topic, '@.+$')
  return branch and branch .. ':' or ''
end

-- The member of an entry of a topic that is no branch.
function Groups.member_of(topic, entry)
  return topic .. (string.find(entry, '^@[^:]+:') and '' or ':') .. entry
end

-- The entries of messages of a topic.
function Groups.entries_of(topic, members)
  local entries, before = {}, Groups.before_id(topic)
  for i, member in ipairs(members) do entries[i] = before .. string.sub(member, #topic + 2) end
  return entries
end

-- Whether messages of a topic have keys, which counts as one, and whether some are in groups, which counts as two.
function Groups.beside(topic)
  return call('EXISTS', keys_of(topic), grouped_of(topic), grouped_of(topic))
end

-- The head of the group of a number, read; nil if there is none, or it is foreign.
function Groups.read(topic, n)
  local line, callback = string.match(try('HGET', groups_of(topic), '#' .. text(n)) or '', '^([^\n]*)\n?(.*)$')
  local name = string.match(line, '^%S+')
  if not name then return nil end
  local g = { n = n, name = name, callback = callback ~= '' and callback or nil }
  for what, number in string.gmatch(line, ' (%l+)=(%d+)') do g[what] = tonumber(number) end
  return g
end

-- A head as groups_of has it.
function Groups.head_of(g)
  local words = { g.name }
  for _, what in ipairs(NUMBERS) do
    if g[what] then words[#words + 1] = what .. '=' .. text(g[what]) end
  end
  return table.concat(words, ' ') .. (g.callback and '\n' .. g.callback or '')
end

-- The number of a group, 0 if there is none of that name, and since when it is complete.
function Groups.find(topic, name)
  local n, since = string.match(try('HGET', groups_of(topic), name) or '', '^(%d+) ?(%d*)$')
  return tonumber(n or 0), tonumber(since or nil)
end

-- The number of a group, which is made if there is none. One that is made of what is restored is not complete before all of it may be there.
function Groups.open(topic, name, now, restored)
  local n, by = Groups.find(topic, name), 1
  if n > 0 then return n end
  local head = Groups.head_of({ name = name, opened = now, changed = now, restoring = restored and 1 or nil })
  repeat
    n = call('HINCRBY', groups_of(topic), '*', by)
    by = call('HLEN', groups_of(topic))
  until call('HSETNX', groups_of(topic), '#' .. text(n), head) == 1 -- the last number may be lost
  call('HSET', groups_of(topic), name, text(n))
  return n
end

-- Forgets a group of which nobody is left.
function Groups.forget(topic, g)
  call('HDEL', groups_of(topic), g.name, '#' .. text(g.n))
  if call('HLEN', groups_of(topic)) > 1 or call('EXISTS', grouped_of(topic)) == 1 then return end
  call('DEL', groups_of(topic))
  try('ZREM', GROUPED, topic)
end

-- Has messages of a topic join groups, a list of id and name of each. Its died has the ids of those that are dead, and its restored is true if some
-- are restored. Call it before their records are written.
function Groups.join(topic, list, now)
  call('ZADD', GROUPED, 'NX', 0, Groups.home_of(topic))
  local number_of, entries, before = {}, {}, Groups.before_id(topic)
  for i = 1, #list, 2 do
    local id, name = list[i], list[i + 1]
    number_of[name] = number_of[name] or Groups.open(topic, name, now, list.restored)
    entries[i], entries[i + 1] = number_of[name] + (list.died and list.died[id] and 0.5 or 0), before .. id
  end
  call('ZADD', grouped_of(topic), unpack(entries))
end

-- Whether a key that joining writes is foreign.
function Groups.are_foreign(topic)
  return not (try('ZCARD', GROUPED) and try('ZCARD', grouped_of(topic)) and try('HLEN', groups_of(topic)))
end

-- Whether a message is in the group of a name.
function Groups.has(topic, id, name)
  local score, n = tonumber(try('ZSCORE', grouped_of(topic), Groups.before_id(topic) .. id) or nil), Groups.find(topic, name)
  if not score or n > 0 then return score ~= nil and math.floor(score) == n end
  local g = Groups.read(topic, math.floor(score))
  return g ~= nil and g.name == name
end

-- Takes note that messages of a topic may have left their groups, or died, when this call ends: how is acked, dead, dropped or cancelled; or copied,
-- which is not counted. Callbacks.settle looks.
function Groups.touch(topic, members, how)
  local all = table_in(table_in(current, 'grouped'), topic)
  for _, member in ipairs(members) do all[member] = how or all[member] or 'cancelled' end
end

-- Gives a message another group, or none. Call it before its record is written. Returns what takes that back.
function Groups.put(topic, id, name, now)
  local member, entry = topic .. ':' .. id, Groups.before_id(topic) .. id
  local was = tonumber(try('ZSCORE', grouped_of(topic), entry) or nil)
  local left = was and math.floor(was)
  local function note(n)
    local all = table_in(table_in(current, 'moved'), topic)
    all[left] = (all[left] or 0) + n
  end
  if name then
    Groups.join(topic, { id, name }, now)
    if left == Groups.find(topic, name) then left = nil end
    if left then note(1) end
  else
    Groups.touch(topic, { member })
  end
  return function()
    Groups.touch(topic, { member })
    if was then call('ZADD', grouped_of(topic), was, entry) end
    if name and left then note(-1) end
  end
end

-- Has dead messages of a topic count as living again. Call it before they are.
function Groups.revive(topic, members)
  local entries, living = Groups.entries_of(topic, members), {}
  for i, score in ipairs(try('ZMSCORE', grouped_of(topic), unpack(entries)) or {}) do
    if score and score % 1 > 0 then living[#living + 1], living[#living + 2] = math.floor(score), entries[i] end
  end
  if not living[1] then return end
  call('ZADD', grouped_of(topic), unpack(living))
  Groups.touch(topic, members)
end
