-- How a search goes through a place. Each function gets the state c of the search.
local WIDEST = 64 -- members read at a time
local FEW = 4 -- records read at a time: one at first, and while those before have more than SIZE bytes
local SIZE = 32768
local COMPARED = 16384 -- so many bytes do, times those of the part that is looked for in them, and 16: at each of them it may begin

-- The state of a search: its arguments, which find.lua describes, and what it has done.
function Find.begin(arguments)
  local name, n_ids, n_heads = arguments[1], tonumber(arguments[11]), tonumber(arguments[12])
  local from, to = tonumber(arguments[6]) or -math.huge, tonumber(arguments[7]) or math.huge
  return {
    most_work = tonumber(arguments[2]), most = tonumber(arguments[3]), time = arguments[4], last = arguments[5],
    from_text = arguments[6], from = from, to = to, ranged = from > -math.huge or to < math.huge,
    reason = arguments[8], body = arguments[9], brief = arguments[10] == '1',
    n_ids = n_ids, ids = column(13, n_ids), n_heads = n_heads, heads = column(13 + n_ids, n_heads),
    topics = column(13 + n_ids + n_heads, #arguments - 12 - n_ids - n_heads), of_dead = name == 'dead:',
    mixed = string.sub(name, -1) ~= ':',
    by_score = name == 'scheduled:' or name == 'broadcasts' or name == 'ready:',
    work = 0, looked = 0, few = 1, looked_of = {}, described = {},
  }
end

-- Whether an id has all parts, in order: the first at its beginning, the last at its end, and any text between.
local function is_named(c, text_of_id)
  if c.n_ids == 0 then return true end
  local at, tail = #c.ids[1], c.ids[c.n_ids]
  if string.sub(text_of_id, 1, at) ~= c.ids[1] then return false end
  for i = 2, c.n_ids - 1 do
    local _, stop = string.find(text_of_id, c.ids[i], at + 1, true)
    if not stop then return false end
    at = stop
  end
  return #text_of_id - at >= #tail and string.sub(text_of_id, #text_of_id - #tail + 1) == tail
end

local function begins_as_wanted(c, member)
  for _, beginning in ipairs(c.topics) do
    if string.sub(member, 1, #beginning) == beginning then return true end
  end
  return false
end

-- Whether the record of a member is worth reading.
local function is_candidate(c, member, topic, score)
  local of, own = string.match(member, '^([^:]+):(.*)$')
  if not of or topic and of ~= topic or not topic and not begins_as_wanted(c, member) or not is_named(c, own) then return false end
  return not (c.by_score or c.in_line) or tonumber(score) >= c.from and tonumber(score) <= c.to
end

-- Whether a whole has a part from a byte on.
local function has(c, whole, part, from_byte)
  c.work = c.work + (#whole - from_byte + 1) * (16 + #part) / COMPARED
  return string.find(whole, part, from_byte, true) ~= nil
end

-- Whether a message has all that is looked for beside the reason, but its headers: these are compared by what stands in its record,
-- roughly. One without a record has it if it is dead, and nothing is looked for in records.
local function is_match(c, record)
  if not record then return c.of_dead and not c.ranged and c.n_heads == 0 and c.body == '' end
  if c.ranged and not c.by_score and not c.in_line then
    local due = Messages.first_due_of(record)
    if not due or due < c.from or due > c.to then return false end
  end
  local newline = string.find(record, '\n', 1, true) or 0
  local head = c.n_heads > 0 and newline > 0 and string.sub(record, 1, newline) or record
  for _, part in ipairs(c.heads) do
    if not has(c, head, part, 1) then return false end
  end
  return c.body == '' or has(c, record, c.body, newline + 1)
end

function Find.is_full(c)
  return #c.described >= c.most or c.work >= c.most_work
end

-- Reads the records of some members from one on: few while they are large, since one that was read has cost its time, and one at a
-- time if most have another reason.
local function records_from(c, members, first)
  local records, volume = call('HMGET', MESSAGES, unpack(members, first, math.min(first + c.few - 1, #members))), 0
  for _, record in ipairs(records) do volume = volume + #(record or '') end
  c.work = c.work + volume / Describe.VOLUME
  c.few = (volume > SIZE or c.reason ~= '') and 1 or math.min(2 * c.few, FEW)
  return records
end

-- Looks at a page of a place, and returns how much of it: not all if it is full before.
local function look_at(c, place, page, topic)
  local members, wanted = {}, {}
  for i = 1, #page, 2 do
    local member, time = page[i], page[i + 1]
    if c.in_line then member, time = Marks.member_in(place, topic, member, time) end
    if is_candidate(c, member, topic, time) then members[#members + 1], wanted[i] = member, true end
  end
  local reasons = c.reason ~= '' and #members > 0 and try('HMGET', DEATHS, unpack(members)) or {}
  local records, read, n = {}, 0, 0 -- the last ones, how many were skipped before, and how many members there were
  for i = 1, #page, 2 do
    if i > 1 and Find.is_full(c) then return i - 1 end
    local of = topic or topic_of(page[i])
    if c.mixed and of then c.looked_of[of] = (c.looked_of[of] or 0) + 1 end
    c.looked, c.work = c.looked + 1, c.work + 1
    if wanted[i] then n = n + 1 end
    local is_found = wanted[i] and (c.reason == '' or has(c, reasons[n] or '', c.reason, 1))
    if is_found and c.brief then
      c.described[#c.described + 1] = { page[i], 'dead', page[i + 1], false, false, reasons[n] or false, false, '' }
    elseif is_found then
      if n > read + #records then read, records = n - 1, records_from(c, members, n) end
      local record = records[n - read]
      if is_match(c, record) then
        c.described[#c.described + 1] = Describe.describe(of, members[n], record)
        c.work = c.work + Describe.MATCH
      end
    end
  end
  return #page
end

-- Goes through a place behind the last one seen. Returns whether it came to its end.
function Find.go_through(c, place, topic)
  c.work, c.in_line = c.work + 1, topic and place == line_of(topic)
  if (try('ZCARD', place) or 0) == 0 then return true end
  local rank = 0
  if c.time ~= '' then
    rank = Marks.rank_behind(place, c.time, c.last)
  elseif c.by_score and c.from_text ~= '' then
    rank = call('ZCOUNT', place, '-inf', '(' .. c.from_text)
  end
  repeat
    local wanted = math.min(WIDEST, math.max(1, math.ceil(c.most_work - c.work)))
    local page = call('ZRANGE', place, rank, rank + wanted - 1, 'WITHSCORES')
    local seen = look_at(c, place, page, topic)
    if seen == #page and (#page < 2 * wanted or c.by_score and tonumber(page[seen]) > c.to) then return true end
    rank, c.time, c.last = rank + seen / 2, page[seen], page[seen - 1]
  until Find.is_full(c)
  return false
end
