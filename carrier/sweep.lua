-- Keeps house, for the elected carrier only: removes dead letters that are too old or too many, and forgets topics of which
-- nothing is left. It deals with a page of the counters of topics, and with some positions in the logs.
-- KEYS[10]: carrier, KEYS[11]: logs, KEYS[12]: listeners.
-- ARGV[3]: token, ARGV[4]: what the topics' keys begin with, ARGV[5]: cursor over the counters, ARGV[6]: how many dead letters
--   of a topic are kept, ARGV[7]: for how many ms, ARGV[8]: for how many ms a topic is remembered.
-- Reply: 0 if the lease is another's. Else 1, the cursor for the next call, 1 if there is more to be done soon, 1 if all topics
--   were looked at, how many were forgotten, and of each that dead letters were removed of: topic and how many.
-- The keys of topics are built here, because the topics are learned here; they carry the same hash tag.
local PAGE = 150 -- counters looked at in one call
local LETTERS = 200 -- dead letters removed in one call
local POSITIONS = 50 -- positions forgotten in one call
local LISTENERS = 200 -- named listeners, of which what they remember of them is forgotten, too, if there are no more
local EVER = { 'published', 'acked', 'sent', 'died', 'lateness' } -- counters that keep no topic alive
local ALIVE = { 'leased', 'broadcasts', 'paused' } -- those that do
local LOGS, base, cursor = KEYS[11], ARGV[4], ARGV[5]
local KEEP, AGE, REMEMBER = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
if call('GET', KEYS[10]) ~= ARGV[3] then return { 0 } end

local us, now = clock()
local soon, forgotten, removed, left = 0, 0, {}, LETTERS

-- Removes what is too much of a topic's dead letters, the oldest of them. Returns how many stay.
local function trim(topic)
  local dead = base .. 'dead:' .. topic
  local all = try('ZCARD', dead) or 0
  if all == 0 then return 0 end
  local over = math.max(all - KEEP, call('ZCOUNT', dead, '-inf', '(' .. text(now - AGE)))
  local n = math.min(over, left)
  if over > n then soon = 1 end
  if n > 0 then
    remove_dead(dead, call('ZRANGE', dead, 0, n - 1))
    removed[#removed + 1] = topic
    removed[#removed + 1] = n
    left = left - n
  end
  return all - n
end

local function fields_of(topic, names)
  local fields = {}
  for i, name in ipairs(names) do fields[i] = topic .. ':' .. name end
  return fields
end

-- Whether nothing of a topic is left but what it once was.
local function is_idle(topic)
  for _, n in ipairs(call('HMGET', TOPICS, unpack(fields_of(topic, ALIVE)))) do
    if n then return false end
  end
  return call('EXISTS', base .. 'schedule:' .. topic, base .. 'ready:' .. topic, base .. 'waiting:' .. topic,
    base .. 'log:' .. topic) == 0
end

-- Forgets a topic that is idle, and that was as idle some time ago: since when, and what had happened to it until then, is kept
-- beside its counters.
local function look_at(topic)
  local mark = topic .. ':idle'
  local kept = call('HGET', TOPICS, mark)
  if trim(topic) > 0 or not is_idle(topic) then
    if kept then call('HDEL', TOPICS, mark) end
    return
  end
  local ever = fields_of(topic, EVER)
  local was = {}
  for i, n in ipairs(call('HMGET', TOPICS, unpack(ever))) do was[i] = n or '' end
  was = table.concat(was, ',')
  local since, before = string.match(kept or '', '^(%d+) (.*)$')
  if before ~= was then
    call('HSET', TOPICS, mark, text(now) .. ' ' .. was)
    soon = 1
  elseif now - since > REMEMBER then
    call('HDEL', TOPICS, mark, unpack(ever))
    forgotten, soon = forgotten + 1, 1
  end
end

-- Forgets where named listeners stood in topics.
local function forget_places(topics)
  if #topics == 0 or (try('HLEN', KEYS[12]) or math.huge) > LISTENERS then return end
  local names = call('HGETALL', KEYS[12])
  for i = 1, #names, 2 do try('HDEL', base .. 'places:' .. names[i], unpack(topics)) end
end

-- Forgets the positions of topics that had no broadcast for so long, and whose logs the beat has removed. That of the last one of
-- all stays, so that positions only grow.
local function forget_positions()
  local last = last_sent(LOGS)
  local old = try('ZRANGE', LOGS, '-inf', text((now - REMEMBER) * 1000), 'BYSCORE', 'LIMIT', 0, POSITIONS) or {}
  local gone = {}
  for _, topic in ipairs(old) do
    if last_sent_to(LOGS, topic) ~= last and call('EXISTS', base .. 'log:' .. topic) == 0 then
      call('ZREM', LOGS, topic)
      gone[#gone + 1] = topic
      soon = 1
    end
  end
  forget_places(gone)
end

local page = try('HSCAN', TOPICS, cursor, 'COUNT', PAGE) or { '0', {} }
local seen = {}
for i = 1, #page[2], 2 do
  local topic = topic_of(page[2][i])
  if topic and not seen[topic] then
    seen[topic] = true
    if left > 0 then look_at(topic) end
  end
end
if cursor == '0' then trim('_') end -- what died without a topic
forget_positions()
local done = left > 0 -- else this page once more
if done then cursor = page[1] end
return { 1, cursor, soon, done and cursor == '0' and 1 or 0, forgotten, unpack(removed) }
