-- Finds messages in places of one kind, those of topics or the one of all topics, and describes those that match.
-- ARGV: name of the place, how much to do (a member is 1), the most matches; time and member of the last one seen in the first
--   place, or ''; the due time in ms from and to which, or ''; a part of the reason and of the body, or ''; the whole id, or ''; how
--   many parts of ids, and of what stands before a body, follow; these parts; then the topics, or for the place of all topics,
--   unless there is a whole id, what members begin with.
-- Reply: how many places it went through; time and member from which to continue in the next, or ''; now in ms; how many members it
--   looked at; of the place of all topics how many of each topic, in pairs; and the matches as describe returns them, until
--   their records fill ROOM.
local name, most_work, most, time, last, from_text, to, reason, body, id = unpack(ARGV, 1, 10)
local ROOM = 1048576 -- bytes of records in a reply, and one more record
local WIDEST = 64 -- members read at a time, and fewer if their records have more than SIZE bytes
local SIZE = 131072
local MATCH = 8 -- what describing a match costs
local VOLUME = 4096 -- so many bytes of records cost as much as a member
most_work, most = tonumber(most_work), tonumber(most)
to = tonumber(to) or math.huge
local from = tonumber(from_text) or -math.huge
local n_ids, n_heads = tonumber(ARGV[11]), tonumber(ARGV[12])
local ids, heads, topics = column(13, n_ids), column(13 + n_ids, n_heads), column(13 + n_ids + n_heads, #ARGV - 12 - n_ids - n_heads)
local mixed = string.sub(name, -1) ~= ':'
local by_score = name == 'schedule:' or name == 'broadcasts' or name == 'ready:'
local ranged = from > -math.huge or to < math.huge
local work, looked, size, page_size = 0, 0, 0, 16
local looked_of, described = {}, {}

-- Whether an id has all parts, in order: the first at its beginning, the last at its end, and any text between.
local function is_named(text_of_id)
  if n_ids == 0 then return true end
  local at, tail = #ids[1], ids[n_ids]
  if string.sub(text_of_id, 1, at) ~= ids[1] then return false end
  for i = 2, n_ids - 1 do
    local _, stop = string.find(text_of_id, ids[i], at + 1, true)
    if not stop then return false end
    at = stop
  end
  return #text_of_id - at >= #tail and string.sub(text_of_id, #text_of_id - #tail + 1) == tail
end

local function begins_as_wanted(member)
  for _, beginning in ipairs(topics) do
    if string.sub(member, 1, #beginning) == beginning then return true end
  end
  return false
end

-- Whether the record of a member is worth reading.
local function is_candidate(member, topic, score)
  local of, own = string.match(member, '^([^:]+):(.*)$')
  if not of or topic and of ~= topic or not topic and not begins_as_wanted(member) or not is_named(own) then return false end
  return not by_score or tonumber(score) >= from and tonumber(score) <= to
end

-- Whether a message has all that is looked for, but its headers: these are compared by what stands in its record, roughly.
local function is_match(member, record)
  if ranged and not by_score then
    local due = first_due_of(record)
    if not due or due < from or due > to then return false end
  end
  if reason ~= '' and not string.find(try('HGET', DEATHS, member) or '', reason, 1, true) then return false end
  local newline = string.find(record, '\n', 1, true) or 0
  for _, part in ipairs(heads) do
    local first, stop = string.find(record, part, 1, true)
    if not first or stop > newline and newline > 0 then return false end
  end
  return body == '' or string.find(record, body, newline + 1, true) ~= nil
end

local function is_full()
  return #described >= most or size >= ROOM
end

-- Looks at a page of a place, and returns how much of it: not all if the reply is full before.
local function look_at(page, topic)
  local members, at = {}, {}
  for i = 1, #page, 2 do
    if is_candidate(page[i], topic, page[i + 1]) then
      members[#members + 1] = page[i]
      at[i] = #members
    end
  end
  local records = #members > 0 and call('HMGET', MESSAGES, unpack(members)) or {}
  local volume = 0
  for _, record in ipairs(records) do volume = volume + #(record or '') end
  work = work + volume / VOLUME
  page_size = math.max(1, math.min(WIDEST, math.floor(SIZE * #page / 2 / (volume + 1)), 2 * page_size))
  for i = 1, #page, 2 do
    local of = topic or topic_of(page[i])
    if mixed and of then looked_of[of] = (looked_of[of] or 0) + 1 end
    looked, work = looked + 1, work + 1
    local record = at[i] and records[at[i]]
    if record and is_match(page[i], record) then
      described[#described + 1] = describe(of, page[i], record)
      size, work = size + #record, work + MATCH
      if is_full() then return i + 1 end
    end
  end
  return #page
end

-- Goes through a place behind the last one seen. Returns whether it came to its end.
local function go_through(place, topic)
  work = work + 1
  if (try('ZCARD', place) or 0) == 0 then return true end
  local rank = 0
  if time ~= '' then rank = rank_behind(place, time, last) elseif by_score and from_text ~= '' then rank = call('ZCOUNT', place, '-inf', '(' .. from_text) end
  repeat
    local wanted = page_size
    local page = call('ZRANGE', place, rank, rank + wanted - 1, 'WITHSCORES')
    local seen = look_at(page, topic)
    if seen == #page and (#page < 2 * wanted or by_score and tonumber(page[seen]) > to) then return true end
    rank, time, last = rank + seen / 2, page[seen], page[seen - 1]
  until work >= most_work or is_full()
  return false
end

-- Looks for the message of the id alone.
local function look_up(place, topic)
  local member = topic .. ':' .. id
  local score = try('ZSCORE', place, member)
  if score then look_at({ member, score }, topic) else looked, work = looked + 1, work + 1 end
  return true
end

local through = 0
local list = mixed and id == '' and { false } or topics
for _, topic in ipairs(list) do
  local place = place_named(name, topic)
  if not (id ~= '' and look_up or go_through)(place, topic or nil) then break end
  through, time, last = through + 1, '', ''
  if work >= most_work or is_full() then break end
end
local pairs_of = {}
for topic, n in pairs(looked_of) do
  pairs_of[#pairs_of + 1] = topic
  pairs_of[#pairs_of + 1] = n
end
local _, now = clock()
return { through, time, last, now, looked, pairs_of, unpack(described) }
