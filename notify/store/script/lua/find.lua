-- Finds messages in places of one kind, those of topics or the one of all topics, and describes those that match.
-- ARGV: name of the place, how much to do (a member is 1), the most matches; time and member of the last one seen in the first
--   place, or ''; the due time in ms from and to which, or ''; a part of the reason and of the body, or ''; how many parts of ids, and
--   of what stands before a body, follow; these parts; then the topics, or for the place of all topics what members begin with.
-- Reply: how many places it went through; time and member from which to continue in the next, or ''; now in ms; how many members it
--   looked at; of the place of all topics how many of each topic, in pairs; and the matches as describe returns them.
-- What it does is counted, since the clock may stand still during a script: a unit is about a microsecond or two, so that a call
-- that is to do 500 takes about one millisecond. It looks at one message at least, and reads FEW records ahead: large ones take longer.
local name, most_work, most, time, last, from_text, to, reason, body = unpack(ARGV, 1, 9)
local WIDEST = 64 -- members read at a time
local FEW = 4 -- records read at a time: one at first, and while those before have more than SIZE bytes
local SIZE = 32768
local COMPARED = 16384 -- so many bytes do, times those of the part that is looked for in them, and 16: at each of them it may begin
most_work, most = tonumber(most_work), tonumber(most)
to = tonumber(to) or math.huge
local from = tonumber(from_text) or -math.huge
local n_ids, n_heads = tonumber(ARGV[10]), tonumber(ARGV[11])
local ids, heads, topics = column(12, n_ids), column(12 + n_ids, n_heads), column(12 + n_ids + n_heads, #ARGV - 11 - n_ids - n_heads)
local mixed = string.sub(name, -1) ~= ':'
local by_score = name == 'scheduled:' or name == 'broadcasts' or name == 'ready:'
local ranged = from > -math.huge or to < math.huge
local work, looked, few = 0, 0, 1
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

-- Whether a whole has a part from a byte on.
local function has(whole, part, from_byte)
  work = work + (#whole - from_byte + 1) * (16 + #part) / COMPARED
  return string.find(whole, part, from_byte, true) ~= nil
end

-- Whether a message has all that is looked for beside the reason, but its headers: these are compared by what stands in its record, roughly.
local function is_match(record)
  if ranged and not by_score then
    local due = Messages.first_due_of(record)
    if not due or due < from or due > to then return false end
  end
  local newline = string.find(record, '\n', 1, true) or 0
  local head = n_heads > 0 and newline > 0 and string.sub(record, 1, newline) or record
  for _, part in ipairs(heads) do
    if not has(head, part, 1) then return false end
  end
  return body == '' or has(record, body, newline + 1)
end

local function is_full()
  return #described >= most or work >= most_work
end

-- Reads the records of some members from one on: few while they are large, since one that was read has cost its time, and one at a
-- time if most have another reason.
local function records_from(members, first)
  local records, volume = call('HMGET', MESSAGES, unpack(members, first, math.min(first + few - 1, #members))), 0
  for _, record in ipairs(records) do volume = volume + #(record or '') end
  work = work + volume / Describe.VOLUME
  few = (volume > SIZE or reason ~= '') and 1 or math.min(2 * few, FEW)
  return records
end

-- Looks at a page of a place, and returns how much of it: not all if it is full before.
local function look_at(page, topic)
  local members = {}
  for i = 1, #page, 2 do
    if is_candidate(page[i], topic, page[i + 1]) then members[#members + 1] = page[i] end
  end
  local reasons = reason ~= '' and #members > 0 and try('HMGET', DEATHS, unpack(members)) or {}
  local records, read, n = {}, 0, 0 -- the last ones, how many were skipped before, and how many members there were
  for i = 1, #page, 2 do
    if i > 1 and is_full() then return i - 1 end
    local of = topic or topic_of(page[i])
    if mixed and of then looked_of[of] = (looked_of[of] or 0) + 1 end
    looked, work = looked + 1, work + 1
    local is_next = page[i] == members[n + 1]
    if is_next then n = n + 1 end
    if is_next and (reason == '' or has(reasons[n] or '', reason, 1)) then
      if n > read + #records then read, records = n - 1, records_from(members, n) end
      local record = records[n - read]
      if record and is_match(record) then
        described[#described + 1] = Describe.describe(of, page[i], record)
        work = work + Describe.MATCH
      end
    end
  end
  return #page
end

-- Goes through a place behind the last one seen. Returns whether it came to its end.
local function go_through(place, topic)
  work = work + 1
  if (try('ZCARD', place) or 0) == 0 then return true end
  local rank = 0
  if time ~= '' then
    rank = Marks.rank_behind(place, time, last)
  elseif by_score and from_text ~= '' then
    rank = call('ZCOUNT', place, '-inf', '(' .. from_text)
  end
  repeat
    local wanted = math.min(WIDEST, math.max(1, math.ceil(most_work - work)))
    local page = call('ZRANGE', place, rank, rank + wanted - 1, 'WITHSCORES')
    local seen = look_at(page, topic)
    if seen == #page and (#page < 2 * wanted or by_score and tonumber(page[seen]) > to) then return true end
    rank, time, last = rank + seen / 2, page[seen], page[seen - 1]
  until is_full()
  return false
end

local through = 0
for _, topic in ipairs(mixed and { false } or topics) do
  if not go_through(Marks.place_named(name, topic), topic or nil) then break end
  through, time, last = through + 1, '', ''
  if is_full() then break end
end
local pairs_of = {}
for topic, n in pairs(looked_of) do
  pairs_of[#pairs_of + 1] = topic
  pairs_of[#pairs_of + 1] = n
end
local _, now = clock()
return { through, time, last, now, looked, pairs_of, unpack(described) }
