-- What the scripts of repair share: lua/repair. What they find is where no arrow leads, so they write by hand where none leads away.
-- ARGV of each: 1 to repair, 0 to look only; the cursor of a page; how many to look at, or some more; a script's own follow.
-- Reply of each: the cursor of the next page; how many were looked at; how many us that took; of each finding: what is wrong,
-- with whom, in which key, and what is done about it. Who looks only is told the same.

local APPLY, CURSOR, PAGE = ARGV[1] == '1', ARGV[2], ARGV[3]
local FINDINGS = {}

-- Tells what is wrong, and returns whether it is to be repaired.
local function wrong(what, name, key, remedy)
  FINDINGS[#FINDINGS + 1] = { what, name, key, remedy }
  return APPLY
end

-- Takes back that the last finding can be repaired: a key in the way is foreign.
local function in_vain()
  FINDINGS[#FINDINGS][4] = ''
end

-- The reply: us is the time at which the script began.
local function report(next_page, looked, us)
  return { next_page, looked, clock() - us, FINDINGS }
end

-- The page of a hash or a sorted set: the cursor of the next one, and its fields or members. Empty where the key is foreign.
local function page_of(command, key)
  local page = try(command, key, CURSOR, 'COUNT', PAGE) or { '0', {} }
  local names = {}
  for i = 1, #page[2], 2 do names[#names + 1] = page[2][i] end
  return page[1], names
end

-- Sorts members by their topics. What has no topic stands under '', which is none.
local function members_by_topic(members)
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

-- The place of dead letters of a topic, and of what has none.
local function dead_place(topic)
  return topic ~= '' and topic or NOWHERE
end

-- The places in which members of a topic may stand: who stands in an earlier one does not belong into a later one.
local function places_for(topic)
  if topic == '' then return { LEASED, BROADCASTS, dead_of(NOWHERE) } end
  return { LEASED, ready_of(topic), schedule_of(topic), BROADCASTS, dead_of(topic) }
end

-- In which places members of a topic stand: of each one a list of keys.
local function places_with(topic, members)
  local where = {}
  for i = 1, #members do where[i] = {} end
  for _, key in ipairs(places_for(topic)) do
    for i, score in ipairs(try('ZMSCORE', key, unpack(members)) or {}) do
      if score then where[i][#where[i] + 1] = key end
    end
  end
  return where
end

-- Takes a member out of a place of a topic, and keeps what counts or leads there.
local function take_out(key, topic, member)
  if key == schedule_of(topic) then
    take_scheduled(topic, member)
  elseif try('ZREM', key, member) ~= 1 then
    return
  elseif key == LEASED or key == BROADCASTS then
    if topic ~= '' then count(topic, key == LEASED and 'leased' or 'broadcasts', -1) end
  elseif key == ready_of(topic) then
    settle_ready(topic)
  elseif is_at_home(dead_place(topic), member) then
    try('HDEL', DEATHS, member)
  end
end
