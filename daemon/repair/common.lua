-- What the scripts of repair share. It stands behind prelude.lua.
-- ARGV[3]: what keys begin with, ARGV[4]: 1 to repair, 0 to look only, ARGV[5]: cursor, ARGV[6]: how many to look at, or some
--   more; a script's own follow.
-- Reply of each: the cursor of the next page, how many were looked at, how many us that took, and of each finding: what is
--   wrong, with whom, in which key without its beginning, and what is done about it. Whoever looks only is told the same.
-- The keys of topics are built here, because the topics are learned here; they carry the same hash tag.
local base, apply, cursor, PAGE = ARGV[3], ARGV[4] == '1', ARGV[5], ARGV[6]
local us, now = clock()
local looked, findings = 0, {}

-- Tells what is wrong, and returns whether it is to be repaired.
local function wrong(what, name, key, remedy)
  findings[#findings + 1] = { what, name, string.sub(key, #base + 1), remedy }
  return apply
end

-- Takes back that the last finding can be repaired: a key in the way is foreign.
local function in_vain()
  findings[#findings][4] = ''
end

local function answer(next_)
  return { next_, looked, clock() - us, findings }
end

-- A page of a hash or a sorted set: the cursor of the next one, and its fields or members. Empty where the key is foreign.
local function page_of(command, key)
  local page = try(command, key, cursor, 'COUNT', PAGE) or { '0', {} }
  local names = {}
  for i = 1, #page[2], 2 do names[#names + 1] = page[2][i] end
  looked = looked + #names
  return page[1], names
end

-- Sorts members by their topics. What has no topic stands under '', which is none.
local function by_topic(members)
  local topics = {}
  for _, member in ipairs(members) do
    local topic = topic_of(member)
    if not topic or not is_topic(topic) then topic = '' end
    local list = topics[topic] or {}
    topics[topic] = list
    list[#list + 1] = member
  end
  return topics
end

-- Where the dead letters of a topic are, and of what has none.
local function dead_of(topic)
  return base .. 'dead:' .. (topic ~= '' and topic or '_')
end

-- The places in which members of a topic may stand: who stands in an earlier one does not belong into a later one.
local function places_of(topic)
  if topic == '' then return { LEASED, BROADCASTS, dead_of('') } end
  return { LEASED, base .. 'ready:' .. topic, base .. 'schedule:' .. topic, BROADCASTS, dead_of(topic) }
end

-- In which places members of a topic stand: of each one a list of keys.
local function stand(topic, members)
  local where = {}
  for i = 1, #members do where[i] = {} end
  for _, key in ipairs(places_of(topic)) do
    for i, score in ipairs(try('ZMSCORE', key, unpack(members)) or {}) do
      if score then where[i][#where[i] + 1] = key end
    end
  end
  return where
end

-- Takes a member out of a place, and keeps what counts or leads there.
local function take_out(key, topic, member)
  if key == base .. 'schedule:' .. topic then
    unschedule(topic, key, member)
    return
  end
  if try('ZREM', key, member) ~= 1 then return end
  if key == LEASED or key == BROADCASTS then
    if topic ~= '' then count(topic, key == LEASED and 'leased' or 'broadcasts', -1) end
  elseif key == base .. 'ready:' .. topic then
    leave_ready(topic, key)
  elseif is_at_home(key, member) then
    try('HDEL', DEATHS, member)
  end
end
