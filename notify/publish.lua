-- Publishes messages: due later into the schedule, due already into the ready set of their topic, or into the schedule where
-- something of the topic is overdue. Broadcasts wait for the carrier in any case: it alone writes the logs, so they go out in
-- the order of their due times.
-- KEYS[10..]: ready, waiting, dead and schedule of each topic.
-- ARGV[3]: number of topics; then topic and number of its messages for each; then for each message, topic by topic:
--   member; when: -DELAY, 0 for at once, or DUE, all in ms, followed by /TTL if it has one, or behind * for a broadcast; its
--   record without {"at":MS. DUE in the past is now but for broadcasts, and a time to live counts from DUE. Of a message that is restored, when is JSON of what it had elsewhere: due, expires, broadcast,
--   at, used (attempts); or died and reason of a dead letter.
-- Reply: now in ms, then for each message its due time in ms, -1 if the id is in use, -2 if it is due past the year 9999,
--   -3 if the ready set of its topic is foreign, -4 if the set of all broadcasts is, -5 if the schedule of its topic or the set
--   of all topics that have one is, -6 if the dead letters of its topic are.
local MAX = 253402300799999
local BUSY, PASSED = 1000, 64 -- topics that are kept as busy, and messages after which one is
local soonest = math.ceil(us / 1000) -- what a delay is added to, so that it is never too short
local topics = tonumber(ARGV[3])
local first = 4 + 2 * topics

local members = {}
for i = first, #ARGV, 3 do members[#members + 1] = ARGV[i] end
local taken = call('HMGET', MESSAGES, unpack(members))

-- The due time, the expiry if there is one, whether it is a broadcast that waits, and what is restored of it, if anything is.
local function due_of(when)
  local n, ttl, all = tonumber(when), nil, nil
  if not n then
    if string.byte(when) == 123 then
      local had = cjson.decode(when)
      return had.died or had.due, had.expires, had.broadcast and not had.died, had
    end
    all, n, ttl = string.match(when, '^(%*?)(%-?%d+)/?(%d*)$')
    n, ttl = tonumber(n), tonumber(ttl)
  end
  if n < 0 then n = soonest - n elseif n == 0 then n = now end
  return all == '*' and n or math.max(n, now), ttl and math.min(n + ttl, MAX), all == '*'
end

local foreign
local function broadcasts_are_foreign()
  if foreign == nil then foreign = try('ZCARD', BROADCASTS) == nil end
  return foreign
end

local function new_list()
  return { earliest = math.huge, placed = false } -- and due times and members
end

local at = '{"at":' .. text(now)
local reply, seen = { now }, {}
local records, expiries = {}, {}
local broadcasts = new_list()
local scheduled, ready, announced = {}, {}, {} -- of each topic: those that wait, those that are due, and how many broadcasts
local restored -- what is, if anything is: members and attempts, members and reasons, and of each topic its dead letters
local i = 0
for t = 1, topics do
  scheduled[t], ready[t] = new_list(), new_list()
  local before = #broadcasts
  for _ = 1, tonumber(ARGV[3 + 2 * t]) do
    i = i + 1
    local arg = first + 3 * (i - 1)
    local member = ARGV[arg]
    local due, expiry, all, had = due_of(ARGV[arg + 1])
    if taken[i] or seen[member] then
      due = -1
    elseif due > MAX then
      due = -2
    elseif all and broadcasts_are_foreign() then
      due = -4
    else
      local place, begin = all and broadcasts or due <= now and ready[t] or scheduled[t], at
      if had then
        restored = restored or { used = {}, reasons = {}, dead = {} }
        local used, reasons, dead = restored.used, restored.reasons, restored.dead
        if had.at then begin = '{"at":' .. text(had.at) end
        if had.used then
          used[#used + 1] = member
          used[#used + 1] = had.used
        end
        if had.died then
          reasons[#reasons + 1] = member
          reasons[#reasons + 1] = had.reason or ''
          dead[t] = dead[t] or new_list()
          place = dead[t]
          place.latest = math.max(place.latest or 0, due)
        end
      end
      seen[member] = i
      records[#records + 1] = member
      records[#records + 1] = begin .. ARGV[arg + 2]
      place[#place + 1] = due
      place[#place + 1] = member
      if due < place.earliest then place.earliest = due end
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

-- Takes messages back that have no place. Where that is for a fault, it is told of each.
local function take_back(list, fault)
  if not list or #list == 0 or list.placed then return end
  local members = {}
  for j = 2, #list, 2 do
    members[#members + 1] = list[j]
    if fault then reply[seen[list[j]] + 1] = fault end
  end
  if restored then try('HDEL', DEATHS, unpack(members)) end
  forget(members)
end

-- Counts messages that were published to a topic. It stands among the busy ones since it passed a multiple of some, so that most
-- publishes write nothing there; one that is new, where there is place.
local published = 0
local function count_published(topic, by)
  published = published + by
  local n = count(topic, 'published', by)
  if not n or n % PASSED >= by and (n > by or (try('ZCARD', TOPICS .. '-busy') or BUSY) >= BUSY) then return end
  try('ZADD', TOPICS .. '-busy', now, topic)
  try('ZREMRANGEBYRANK', TOPICS .. '-busy', 0, -BUSY - 1)
end

-- Has the messages of a topic wait for their due time.
local function wait(topic, key, list)
  list.placed = schedule(topic, key, list.earliest, list)
  if list.placed then count_published(topic, #list / 2) else take_back(list, -5) end
end

-- Makes the messages of a topic ready, unless others are to be ready before.
local function make_ready(topic, key, waiting, schedule_key, list)
  if is_behind(topic, now) then return wait(topic, schedule_key, list) end
  list.placed = add_ready(topic, key, list.earliest, list)
  if not list.placed then return take_back(list, -3) end
  count_published(topic, #list / 2)
  ring(topic, waiting, #list / 2, us)
end

local function place_all()
  if #broadcasts > 0 then
    local head = call('ZRANGE', BROADCASTS, 0, 0, 'WITHSCORES')[2]
    call('ZADD', BROADCASTS, unpack(broadcasts))
    broadcasts.placed = true
    nudge(broadcasts.earliest, head)
  end
  for t = 1, topics do
    local topic, key = ARGV[2 + 2 * t], 6 + 4 * t
    if announced[t] then count(topic, 'broadcasts', announced[t]) end
    if #scheduled[t] > 0 then wait(topic, KEYS[key + 3], scheduled[t]) end
    if #ready[t] > 0 then make_ready(topic, KEYS[key], KEYS[key + 1], KEYS[key + 3], ready[t]) end
    local dead = restored and restored.dead[t]
    if dead then -- nobody is told, and nobody counts them as dying: they died elsewhere
      try('ZADD', DEATHS .. '-oldest', 'LT', dead.earliest, topic)
      try('ZADD', DEATHS .. '-newest', 'GT', dead.latest, topic)
      dead.placed = try('ZADD', KEYS[key + 2], unpack(dead)) ~= nil
      if dead.placed then count_published(topic, #dead / 2) else take_back(dead, -6) end
    end
  end
end

if #expiries > 0 then call('ZADD', EXPIRIES, unpack(expiries)) end
if restored and #restored.used > 0 then call('HSET', ATTEMPTS, unpack(restored.used)) end
if restored and #restored.reasons > 0 then try('HSET', DEATHS, unpack(restored.reasons)) end
call('HSET', MESSAGES, unpack(records))
local placed, fault = pcall(place_all)
count_all('published', published)
if not placed then
  take_back(broadcasts)
  for t = 1, topics do
    take_back(scheduled[t])
    take_back(ready[t])
    take_back(restored and restored.dead[t])
  end
  error(fault, 0)
end
return reply
