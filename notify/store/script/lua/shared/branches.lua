-- Branches. A topic whose settings name some is copied: each of its messages that is ready gets a copy in every branch, the topic TOPIC@NAME, and is
-- acknowledged. Only the carrier does so, and nobody else claims of the topic. A copy has the record of the original, and its due time; and it is in
-- the same group, from before it has a record, so that no group is complete whose copies have not ended.
--
-- A step writes the copies, then takes the originals out. If a script stopped in between, the next step finds the copies that are there.

local SIZE = 262144 -- bytes of records that a step writes at the most, but of one message at least
local AGAIN = 1000 -- ms until a step is made again that found no room, or nothing that is due by now
local MOST = 16 -- branches of a topic
local LONGEST = 114 -- bytes of an id before a time

-- The names of branches after a change: +NAME adds one, -NAME removes one, and anything else is all of them.
function Branches.changed(before, asked)
  local sign, name = string.match(asked, '^([+-])(.*)$')
  if not sign then return asked end
  local all, has = {}, false
  for one in string.gmatch(before, '[^,]+') do
    has = has or one == name
    if sign == '+' or one ~= name then all[#all + 1] = one end
  end
  if sign == '+' and not has then all[#all + 1] = name end
  return table.concat(all, ',')
end

-- The branches of a topic, by its own settings.
local function branches_of(topic, own)
  local all = {}
  for name in string.gmatch(Settings.branches_in(own) or '', '[^,]+') do all[#all + 1] = topic .. '@' .. name end
  return all
end

-- Why settings of a topic may not become others, and of how many: -1, so many messages are ready that would need seats without branches; -2, there
-- would be so many branches; -3, it would have a limit beside branches. Nil: they may.
function Branches.fault(topic, before, after)
  local had, all = Settings.branches_in(before), branches_of(topic, after)
  if #all > MOST then return -2, #all end
  if not all[1] then
    local ready = had and Seats.are_in(topic) and try('ZCARD', ready_of(topic)) or 0
    if ready > 0 then return -1, ready end
  elseif Settings.get('concurrency', after) > 0 or Settings.get('rate', after) > 0 then
    return -3, 0
  end
end

-- Gives new branches that have no settings those of their topic.
function Branches.begin(topic, before, after)
  local theirs = Settings.written(after, { branches = '', branch_ttl = '', paused = '', paused_until = '' })
  local had = {}
  for _, branch in ipairs(branches_of(topic, before)) do had[branch] = true end
  for _, branch in ipairs(branches_of(topic, after)) do
    if not had[branch] and not Settings.settings_of(branch) then
      if theirs ~= '' then Settings.put(branch, theirs) end
      Counters.remember(branch)
    end
  end
end

-- The member of a copy in a branch; nil if it is there. Where another message has its id, the copy has the time at which the original was published
-- behind it. There is what was read under its id, and seen has those that this step adds.
local function member_of(branch, id, record, there, seen, now)
  local member, at = branch .. ':' .. id, Messages.published_of(record) or 0
  while seen[member] or there and not Messages.is_freed(member, there, now) do
    if there == record and not seen[member] then
      local is_there = Describe.place_of(branch, member) ~= '' or Seats.blocked_since(branch, member)
      return not is_there and member or nil
    end
    member = branch .. ':' .. string.sub(id, 1, LONGEST) .. '~' .. text(at)
    at = at + 1
    there = call('HGET', MESSAGES, member)
  end
  return member
end

-- What a step is to write into a branch: members, their records, expiries, keys and groups, and their places.
local function copies_of(t, branch)
  local w = { members = {}, records = {}, expiries = {}, keyed = {}, grouped = {}, drops = {}, list = {} }
  local names, seen = {}, {}
  for i, one in ipairs(t.copied) do names[i] = branch .. ':' .. one.id end
  local there = call('HMGET', MESSAGES, unpack(names))
  for i, one in ipairs(t.copied) do
    local member = member_of(branch, one.id, one.record, there[i], seen, t.now)
    if member then
      seen[member] = true
      w.members[#w.members + 1] = member
      w.records[#w.records + 1], w.records[#w.records + 2] = member, one.record
      w.list[#w.list + 1], w.list[#w.list + 2] = one.due, member
      if one.expiry then w.expiries[#w.expiries + 1], w.expiries[#w.expiries + 2] = text(one.expiry), member end
      if one.key then w.keyed[#w.keyed + 1], w.keyed[#w.keyed + 2] = string.sub(member, #branch + 2), one.key end
      if one.group then w.grouped[#w.grouped + 1], w.grouped[#w.grouped + 2] = string.sub(member, #branch + 2), one.group end
      if one.drop then w.drops[#w.drops + 1] = member end
    end
  end
  return w
end

-- The subscriber that the only copy of a step is handed over to. Nil if there is none, or the copy may have to wait.
local function taker_of(t, branch, w)
  local record = w.records[2]
  if w.members[2] or w.keyed[1] or #record > Handover.LARGEST or Messages.is_marked(record) then return nil end
  if w.expiries[1] and Leases.has_expired(w.expiries[1], t.now) or Places.is_behind(branch, t.now) then return nil end
  return (Handover.taker_of(branch))
end

-- Copies the messages of a step into a branch. Returns how many are ready there, and a function that sends the one that is handed over, if one is.
local function copy_into(c, t, branch)
  local w = copies_of(t, branch)
  if not w.members[1] then return 0 end
  if w.expiries[1] then try('ZADD', EXPIRIES, unpack(w.expiries)) end
  if w.keyed[1] then Seats.note(branch, w.keyed) end
  if w.grouped[1] then Groups.join(branch, w.grouped, t.now) end
  for _, member in ipairs(w.drops) do Seats.may_drop(member, true) end
  call('HSET', MESSAGES, unpack(w.records))
  local taker, state, _, n = taker_of(t, branch, w)
  or_undo(function() Messages.forget(w.members) end, function()
    if taker then Handover.put_handed(taker, w.members[1], 0, t.us) else state, _, n = Enter.place(branch, w.list, tonumber(w.list[1]), false, t.now) end
  end)
  for _, member in ipairs((state or taker) and {} or w.members) do Move.bury(c, ready_of(branch), 1, branch, member, 'its place is foreign (WRONGTYPE)', 0) end
  for _, member in ipairs(state == 'scheduled' and w.drops or {}) do Seats.keep_may_drop(branch, member) end
  Counters.count_published(branch, #w.members, t.now)
  Counters.count_all('published', #w.members)
  return n or 0, taker and function() return Handover.send_handed(taker, branch, unscaled(w.list[1]), w.members[1], 0, w.records[2], t.us) end
end

-- Reads what a step copies: of a claim that acknowledges, and what is to be written of each message. Nil if nothing is due by now.
local function read(c, topic, own, most, branches)
  local ready, ttl = ready_of(topic), Settings.get('branch_ttl', own)
  local members, dues = Claim.find(ready, c.now, most)
  if not members[1] then return nil end
  local records, expiries, attempts = Claim.read(topic, members, SIZE / #branches)
  local runs, all_own = Claim.runs_of(ready, topic, members, dues)
  local t = {
    topic = topic, ready = ready, us = c.us, now = c.now, on_time = c.us, lease = -1, released = 0, receipt = c.us, members = members, runs = runs,
    records = records, expiries = expiries, attempts = attempts, all_own = all_own, copied = {}, grouped = {},
  }
  t.leases = Claim.leases_of(t)
  local i = 0
  for r = 1, #runs, 2 do
    for _ = 1, runs[r + 1] do
      i = i + 1
      local record, due = t.records[i], runs[r]
      if record then
        local options, expiry = Messages.options_of(record), tonumber(expiries[i] or nil)
        if ttl > 0 then expiry = math.min(expiry and math.floor(expiry) or MAX, due + ttl) end
        t.copied[#t.copied + 1] = {
          id = string.sub(members[i], #topic + 2), record = record, due = due, expiry = expiry, key = options.key, drop = options.key and options.drop,
          group = options.group,
        }
        if options.group then t.grouped[#t.grouped + 1] = members[i] end
      end
    end
  end
  return t
end

-- Notes in the reply of a call what a step buried or dropped.
local function report(c, t)
  for what, list in pairs({ buried = t.others and t.others.dead or {}, dropped = t.others and t.others.dropped or {} }) do
    for i = 1, #list, 2 do
      local all, n = c[what], #c[what]
      all[n + 1], all[n + 2], all[n + 3] = list[i], list[i + 1], Move.used_by(list[i])
    end
  end
end

-- Whether a key is foreign that a step needs of a branch. What has no place there becomes a dead letter, if it can.
local function is_foreign(branch)
  if not try('HLEN', keys_of(branch)) then return true end
  return not try('ZCARD', dead_of(branch)) and not (try('ZCARD', ready_of(branch)) and try('ZCARD', scheduled_of(branch)))
end

-- Makes a step: copies what is ready of a topic, oldest first, as much as a call may. Returns for how many ms the next one waits; nil if there is none.
local function step(c, topic)
  local own = try('HGET', TOPICS, topic .. ':settings')
  local branches, ready = branches_of(topic, own), try('ZCARD', ready_of(topic))
  if not ready or Groups.are_foreign(topic) then return Move.LATER end
  if ready == 0 or not branches[1] or Settings.get('paused', own) == 1 then return nil end
  for _, branch in ipairs(branches) do
    if is_foreign(branch) then return Move.LATER end
  end
  if current.grouped then Callbacks.settle() end -- a copy may be given the id of one that ended in this call, and another group
  local t = Memory.has_room(c.now) and read(c, topic, own, math.max(math.floor(c.copies / (#branches + 1)), 1), branches)
  if not t then return AGAIN end
  c.copies = c.copies - #t.members * (#branches + 1)
  local rings, sends = {}, {}
  for i, branch in ipairs(t.copied[1] and branches or {}) do rings[i], sends[i] = copy_into(c, t, branch) end
  report(c, t)
  Claim.take(t, t.leases)
  if t.grouped[1] then Groups.touch(topic, t.grouped, 'copied') end
  c.moved = c.moved + #t.members
  for i, n in ipairs(rings) do
    if n > 0 then Rings.ring(branches[i], n, c.us) end
    if sends[i] and sends[i]() then c.handed = c.handed + 1 end
  end
  return call('EXISTS', ready_of(topic)) == 1 and 0 or nil
end

-- Copies what is ready of a topic, by its entry in ALARMS. Topics take turns: one for which a call has no room comes first in the next.
function Branches.copy(c, entry, topic)
  c.copies = c.copies or math.ceil(c.batch / 2) -- messages that a call reads or writes
  if c.copies <= 0 then return end
  local wait = step(c, topic)
  if wait then call('ZADD', ALARMS, text(c.now + wait), entry) else call('ZREM', ALARMS, entry) end
end
