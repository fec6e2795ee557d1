-- Publishes messages: those due later go into the scheduled set of their topic, and those due already into its ready set, or into the
-- scheduled set if something of the topic is overdue. Broadcasts wait for the carrier in any case: it alone writes the logs, so they
-- are sent in the order of their due times.
-- ARGV: number of topics; then topic and number of its messages for each; then for each message, topic by topic:
--   member; when: -DELAY, 0 for at once, or DUE, all in ms, followed by /TTL if it has one, or behind * for a broadcast, all behind
--   ! if its record is to begin with a +; its record without its times. DUE in the past means now except for broadcasts, and a time
--   to live counts from DUE. For a message from an export, when is JSON of what it had there: due, expires, broadcast, marked (its
--   record is to begin with a +), times (of its record; missing: those of now), used (attempts), extras (how many bytes behind its
--   record are what is noted of it); or died and reason of a dead letter.
-- Reply: now in ms, then for each message its due time in ms, -1 if the id is in use, -2 if it is due past the year 9999,
--   -3 if the ready set of its topic is foreign, -4 if the set of all broadcasts is, -5 if the scheduled set of its topic or the set
--   of all topics that have one is, -6 if the dead letters of its topic are. Then 1 if it was handed over, which happens to one alone.
local refusal, us, now = Memory.refuse_to_grow()
if refusal then return refusal end
local soonest = math.ceil(us / 1000) -- a delay is added to this, so that it is never too short

-- Most calls publish one message that has nothing but a due time. They take the steps of all others, with few functions and no list
-- between: that saves up to a third of the time. If anything is unusual, such as a foreign key, the call begins anew below.
local alone = #ARGV == 6 and tonumber(ARGV[5]) -- when it is due
local its_topic, its_member, its_due, its_record = ARGV[2], ARGV[4], nil, nil
local function note_one()
  local n = try('HINCRBY', TOPICS, its_topic .. ':published', 1)
  try('HINCRBY', TOPICS, '*:published', 1)
  if n and Counters.is_notable(n, 1) then Counters.note_published(its_topic, n, 1, now) end
end

local function place_later()
  local scheduled = scheduled_of(its_topic)
  local first, own = call('ZRANGE', SCHEDULED, 0, 0, 'WITHSCORES')[2], call('ZRANGE', scheduled, 0, 0, 'WITHSCORES')[2]
  call('ZADD', SCHEDULED, own and math.min(its_due, own) or its_due, its_topic)
  call('ZADD', scheduled, its_due, its_member)
  Rings.nudge(its_due, first)
end

if alone then
  its_due = alone < 0 and soonest - alone or math.max(alone, now)
  if its_due > MAX then return { now, -2 } end
  its_record = (its_due > now and text(now) .. ',' .. text(its_due - now) or text(now)) .. ARGV[6]
  local waits = its_due > now or Places.is_behind(its_topic, now)
  if call('HSETNX', MESSAGES, its_member, its_record) == 0 then
    alone = nil -- the id is in use, or it was
  elseif waits then
    if pcall(place_later) then
      note_one()
      return { now, its_due }
    end
    call('HDEL', MESSAGES, its_member)
    alone = nil
  end
end

if alone then
  local taker
  local function place_one()
    taker = #its_record <= Handover.LARGEST and Handover.taker_of(its_topic)
    if taker then return Handover.put_handed(taker, its_member, 0, us) end
    call('ZADD', READY, 'LT', its_due, its_topic)
    call('ZADD', ready_of(its_topic), its_due, its_member)
  end
  if pcall(place_one) then
    note_one()
    if taker and Handover.send_handed(taker, its_topic, its_due, its_member, 0, its_record, us) then return { now, its_due, 1 } end
    if not taker then Rings.ring(its_topic, 1, us) end
    return { now, its_due }
  end
  call('HDEL', MESSAGES, its_member)
end

local topics = tonumber(ARGV[1])
local first = 2 + 2 * topics -- index of the first message in ARGV

local members = {}
for i = first, #ARGV, 3 do members[#members + 1] = ARGV[i] end
local taken = call('HMGET', MESSAGES, unpack(members))

-- The due time, the expiry if there is one, whether it is a broadcast that waits, what it had in an export, if it is from one, and
-- what its record begins with, if anything.
local function due_of(when)
  local n = tonumber(when)
  if n then return n < 0 and soonest - n or math.max(n, now) end -- as most
  if string.byte(when) == 123 then
    local had = cjson.decode(when)
    return had.died or had.due, had.expires, had.broadcast and not had.died, had, had.marked and '+'
  end
  local mark, all, number, ttl = string.match(when, '^(!?)(%*?)(%-?%d+)/?(%d*)$')
  n, ttl = tonumber(number), tonumber(ttl)
  if n < 0 then n = soonest - n elseif n == 0 then n = now end
  return all == '*' and n or math.max(n, now), ttl and math.min(n + ttl, MAX), all == '*', nil, mark == '!' and '+'
end

local at = text(now)
local last, last_text, times = now, at, at -- of the message before: most of a batch have the same due time
local reply, seen = { now }, {}
local records, expiries = {}, {}
local broadcasts = { earliest = math.huge } -- a list of due times and members
local scheduled, ready, dead = {}, {}, {} -- such a list for each topic that has some
local announced = {} -- number of broadcasts, for each topic that has some
local restored -- from an export, if anything is: members and attempts, and members and reasons of death
local i = 0
for t = 1, topics do
  local before = #broadcasts
  for _ = 1, tonumber(ARGV[1 + 2 * t]) do
    i = i + 1
    local arg = first + 3 * (i - 1)
    local member = ARGV[arg]
    local due, expiry, all, had, mark = due_of(ARGV[arg + 1])
    if seen[member] or taken[i] and not Messages.is_freed(member, taken[i], now) then
      due = -1
    elseif due > MAX then
      due = -2
    else
      local lists, begin = ready, at
      if due ~= last then
        last, last_text = due, text(due)
        times = due > now and at .. ',' .. text(due - now) or at
      end
      if due > now then
        lists = scheduled
        if not all then begin = times end
      end
      if had then
        restored = restored or { used = {}, extras = {}, reasons = {} }
        local used, extras, reasons = restored.used, restored.extras, restored.reasons
        begin = had.times or had.died and at or begin
        if had.used then
          used[#used + 1] = member
          used[#used + 1] = had.used
        end
        if had.extras then
          extras[#extras + 1] = member
          extras[#extras + 1] = string.sub(ARGV[arg + 2], -had.extras)
          ARGV[arg + 2] = string.sub(ARGV[arg + 2], 1, -had.extras - 1)
        end
        if had.died then
          reasons[#reasons + 1] = member
          reasons[#reasons + 1] = had.reason or ''
          lists = dead
        end
      end
      if mark then begin = mark .. begin end
      local list = all and broadcasts or lists[t]
      if not list then
        list = { earliest = due, latest = due }
        lists[t] = list
      end
      seen[member] = i
      local n, m = #records, #list
      records[n + 1] = member
      records[n + 2] = begin .. ARGV[arg + 2]
      list[m + 1] = last_text
      list[m + 2] = member
      if due < list.earliest then list.earliest = due end
      if lists == dead and due > list.latest then list.latest = due end
      if expiry then
        expiries[#expiries + 1] = expiry
        expiries[#expiries + 1] = member
      end
    end
    reply[i + 1] = due
  end
  if #broadcasts > before then announced[t] = (#broadcasts - before) / 2 end
end
if #records == 0 then return reply end

-- Removes messages that got no place. A fault, if given, becomes the reply of each.
local function take_back(list, fault)
  if not list or #list == 0 or list.placed then return end
  local gone = {}
  for j = 2, #list, 2 do
    gone[#gone + 1] = list[j]
    if fault then reply[seen[list[j]] + 1] = fault end
  end
  if restored then Dead.take_reasons(gone) end
  Messages.forget(gone)
end

-- Counts a list of a topic that was put into its place, or takes it back for a fault.
local published = 0
local function conclude(topic, list, put, fault)
  list.placed = put
  if not put then return take_back(list, fault) end
  published = published + #list / 2
  local n = try('HINCRBY', TOPICS, topic .. ':published', #list / 2)
  if n and Counters.is_notable(n, #list / 2) then Counters.note_published(topic, n, #list / 2, now) end
end

local function place_all()
  if #broadcasts > 0 then
    broadcasts.placed = Places.put_broadcasts(broadcasts, broadcasts.earliest)
    if not broadcasts.placed then take_back(broadcasts, -4) end
  end
  for t = 1, topics do
    local topic, later, due, died = ARGV[2 * t], scheduled[t], ready[t], dead[t]
    if announced[t] and broadcasts.placed then Counters.count(topic, 'broadcasts', announced[t]) end
    if later then conclude(topic, later, Places.put_scheduled(topic, later, later.earliest), -5) end
    if due then
      local put, at_once = Places.place_due(topic, due, due.earliest, now)
      conclude(topic, due, put, at_once and -3 or -5)
      if put and at_once then Rings.ring(topic, #due / 2, us) end
    end
    if died then -- nothing is published: they died elsewhere
      conclude(topic, died, Dead.put_dead(topic, died, died.earliest, died.latest), -6)
    end
  end
end

if #expiries > 0 then call('ZADD', EXPIRIES, unpack(expiries)) end
if restored and #restored.used > 0 then call('HSET', ATTEMPTS, unpack(restored.used)) end
if restored and #restored.extras > 0 then call('HSET', EXTRAS, unpack(restored.extras)) end
if restored and #restored.reasons > 0 then Dead.put_reasons(restored.reasons) end
call('HSET', MESSAGES, unpack(records))
local placed, fault = pcall(place_all)
Counters.count_all('published', published)
if not placed then
  take_back(broadcasts)
  for t = 1, topics do
    take_back(scheduled[t])
    take_back(ready[t])
    take_back(dead[t])
  end
  error(fault, 0)
end
return reply
