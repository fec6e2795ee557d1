-- Shared by the scripts of lua/repair. They find entries that no arrow of the diagram makes, so they change them by hand where no
-- arrow leads away.
-- ARGV of each: 1 to repair, 0 to check only; the cursor of a page; how many to check, or some more; a script's own follow.
-- Reply of each: the cursor of the next page; how many were checked; how many us that took; of each finding: what is wrong, the
-- name, the key, and what is done about it. The reply is the same if it only checks.

Repair.HELD_FOR = 3600000 -- ms for which no callback comes whose group may be incomplete: until a repair that was stopped is forgotten

-- Adds a finding, and returns whether to repair it.
function Repair.wrong(what, name, key, remedy)
  table.insert(table_in(current, 'findings'), { what, name, key, remedy })
  return ARGV[1] == '1'
end

-- Removes the remedy of the last finding: a foreign key is in the way.
function Repair.cannot_repair()
  current.findings[#current.findings][4] = ''
end

-- The reply: us is the time at which the script began.
function Repair.report(next_page, looked, us)
  return { next_page, looked, clock() - us, current.findings or {} }
end

-- A page of a hash or a sorted set: the cursor of the next one, its fields or members, and by these their values or scores. Empty if the
-- key is foreign.
function Repair.page_of(command, key)
  local page = try(command, key, ARGV[2], 'COUNT', ARGV[3]) or { '0', {} }
  local names, values = {}, {}
  for i = 1, #page[2], 2 do names[#names + 1], values[page[2][i]] = page[2][i], page[2][i + 1] end
  return page[1], names, values
end

-- Groups members by their topics. Those without a valid topic are under ''.
function Repair.members_by_topic(members)
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

-- Whether a member has a record that is a message.
function Repair.is_message(member)
  if call('EXISTS', TAKEN) == 0 then return call('HEXISTS', MESSAGES, member) == 1 end
  local record = call('HGET', MESSAGES, member)
  return record and not Messages.is_done(record)
end

-- Whether a member has the record of one that succeeded and is kept.
function Repair.is_kept_one(member)
  return Messages.is_kept(call('HGET', MESSAGES, member))
end

-- The place of dead letters of a topic; '' is that of members without one.
function Repair.dead_place(topic)
  return topic ~= '' and topic or Dead.NOWHERE
end

-- The places in which members of a topic may be: a member that is in an earlier one does not belong in a later one.
local function places_for(topic)
  if topic == '' then return { LEASED, BROADCASTS, dead_of(Dead.NOWHERE) } end
  return { LEASED, ready_of(topic), scheduled_of(topic), BROADCASTS, dead_of(topic) }
end

-- Adds the line of a topic to the places of members that are blocked.
local function add_line(where, topic, members)
  if topic == '' or not Seats.are_in(topic) then return end
  for i, member in ipairs(members) do
    if Seats.blocked_since(topic, member) then where[i][#where[i] + 1] = line_of(topic) end
  end
end

-- The places that members of a topic are in: a list of keys for each member. What is blocked is in the line, by what is noted of it.
function Repair.places_with(topic, members)
  local where = {}
  for i = 1, #members do where[i] = {} end
  for _, key in ipairs(places_for(topic)) do
    for i, score in ipairs(try('ZMSCORE', key, unpack(members)) or {}) do
      if score then where[i][#where[i] + 1] = key end
    end
  end
  add_line(where, topic, members)
  return where
end

-- Takes a member out of a place of a topic, and updates the counter or index of that place.
function Repair.take_out(key, topic, member)
  if key == scheduled_of(topic) then
    Places.take_scheduled(topic, member)
  elseif try('ZREM', key, member) ~= 1 then
    return
  elseif key == LEASED or key == BROADCASTS then
    if topic ~= '' then Counters.count(topic, key == LEASED and 'leased' or 'broadcasts', -1) end
  elseif key == ready_of(topic) then
    Places.index_ready(topic)
  elseif key ~= done_of(topic) and Dead.is_at_home(Repair.dead_place(topic), member) then
    try('HDEL', DEATHS, member)
  end
end
