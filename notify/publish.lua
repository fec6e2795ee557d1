-- Publishes messages: due later into the schedule, due already into the ready set of their topic. Broadcasts wait for the
-- carrier in any case: it alone writes the logs, so they go out in the order of their due times.
-- KEYS[10..]: ready, waiting, dead and schedule of each topic.
-- ARGV[3]: number of topics; then topic and number of its messages for each; then for each message, topic by topic:
--   member; when: -DELAY, 0 for at once, or DUE, all in ms, followed by /TTL if it has one, or behind * for a broadcast; its
--   record without {"at":MS.
-- Reply: now in ms, then for each message its due time in ms, -1 if the id is in use, -2 if it is due past the year 9999,
--   -3 if the ready set of its topic is foreign, -4 if the set of all broadcasts is, -5 if the schedule of its topic or the set
--   of all topics that have one is.
local MAX = 253402300799999
local us, now = clock()
local soonest = math.ceil(us / 1000) -- what a delay is added to, so that it is never too short
local topics = tonumber(ARGV[3])
local first = 4 + 2 * topics

local members = {}
for i = first, #ARGV, 3 do members[#members + 1] = ARGV[i] end
local taken = call('HMGET', MESSAGES, unpack(members))

-- The due time, the expiry if there is one, and whether it is a broadcast.
local function due_of(when)
  local n, ttl, all = tonumber(when), nil, nil
  if not n then
    all, n, ttl = string.match(when, '^(%*?)(%-?%d+)/?(%d*)$')
    n, ttl = tonumber(n), tonumber(ttl)
  end
  if n < 0 then n = soonest - n elseif n == 0 then n = now end
  return n, ttl and math.min(n + ttl, MAX), all == '*'
end

local foreign
local function broadcasts_are_foreign()
  if foreign == nil then foreign = try('ZCARD', BROADCASTS) == nil end
  return foreign
end

local at = '{"at":' .. text(now)
local reply, seen = { now }, {}
local records, expiries = {}, {}
local broadcasts = { earliest = math.huge } -- due times and members
local scheduled, ready = {}, {} -- of each topic: due times and members
local i = 0
for t = 1, topics do
  scheduled[t], ready[t] = {}, {}
  local announced = #broadcasts
  for _ = 1, tonumber(ARGV[3 + 2 * t]) do
    i = i + 1
    local arg = first + 3 * (i - 1)
    local member = ARGV[arg]
    local due, expiry, all = due_of(ARGV[arg + 1])
    if taken[i] or seen[member] then
      due = -1
    elseif due > MAX then
      due = -2
    elseif all and broadcasts_are_foreign() then
      due = -4
    else
      seen[member] = i
      records[#records + 1] = member
      records[#records + 1] = at .. ARGV[arg + 2]
      local place = all and broadcasts or due <= now and ready[t] or scheduled[t]
      place[#place + 1] = due
      place[#place + 1] = member
      if place.earliest and due < place.earliest then place.earliest = due end
      if expiry then
        expiries[#expiries + 1] = expiry
        expiries[#expiries + 1] = member
      end
    end
    reply[i + 1] = due
  end
  announced = (#broadcasts - announced) / 2
  if announced > 0 then count(ARGV[2 + 2 * t], 'broadcasts', announced) end
end
if #records == 0 then return reply end

-- Takes messages back, because of a fault.
local function take_back(list, fault)
  local members = {}
  for j = 2, #list, 2 do
    members[#members + 1] = list[j]
    reply[seen[list[j]] + 1] = fault
  end
  forget(members)
end

-- Has the messages of a topic wait for their due time.
local function wait(topic, key, list)
  if #list == 0 then return end
  if not schedule(topic, key, list) then return take_back(list, -5) end
  count(topic, 'published', #list / 2)
end

-- Makes the messages of a topic ready.
local function make_ready(topic, key, waiting, list)
  if #list == 0 then return end
  if not try('ZADD', key, unpack(list)) then return take_back(list, -3) end
  try('SADD', READY, topic)
  count(topic, 'published', #list / 2)
  ring(topic, waiting, #list / 2, us)
end

if #expiries > 0 then call('ZADD', EXPIRIES, unpack(expiries)) end
call('HSET', MESSAGES, unpack(records))
if #broadcasts > 0 then
  local head = call('ZRANGE', BROADCASTS, 0, 0, 'WITHSCORES')[2]
  call('ZADD', BROADCASTS, unpack(broadcasts))
  nudge(broadcasts.earliest, head)
end
for t = 1, topics do
  local topic, key = ARGV[2 + 2 * t], 6 + 4 * t
  wait(topic, KEYS[key + 3], scheduled[t])
  make_ready(topic, KEYS[key], KEYS[key + 1], ready[t])
end
return reply
