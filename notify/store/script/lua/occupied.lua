-- Reads names of topics in ranges of them, and what these have in places. Where there are more than it may read, and the indexes of the
-- places have few topics, it reads these, of all ranges.
-- ARGV: how many names to read at the most; 1 to count members, 0 to count places; the due time in ms from and to which scheduled and
--   ready ones count, or ''; how many places; their names; then the two ends of each range, as ZRANGE takes them.
-- Reply: the last name that was read, '' if that was the end of the ranges; then the topics that have something there, each with how
--   much, in the order of names unless they are of the indexes. Only what is counted may be in a place of all topics.
local most, what, from, to, n = unpack(ARGV, 1, 5)
most = tonumber(most)
local of_members = what == '1'
local INDEXES = { ['scheduled:'] = SCHEDULED, ['ready:'] = READY, ['line:'] = KEYED, ['dead:'] = NEWEST, ['done:'] = DONE }
local places, names, sums = {}, {}, {}

for _, place in ipairs(column(6, tonumber(n))) do
  if try('ZCARD', INDEXES[place] or Marks.place_named(place)) ~= 0 then places[#places + 1] = place end
end
for i = 6 + n, #places > 0 and #ARGV or 0, 2 do
  if #names == most then break end
  for _, name in ipairs(try('ZRANGE', NAMES, ARGV[i], ARGV[i + 1], 'BYLEX', 'LIMIT', 0, most - #names) or {}) do
    names[#names + 1] = name
  end
end

-- The topics in the indexes of all places; nil if they may be more than it may read.
local function indexed()
  local sum, all, seen = 0, {}, {}
  for _, place in ipairs(places) do sum = sum + (INDEXES[place] and try('ZCARD', INDEXES[place]) or math.huge) end
  if sum > most then return nil end
  for _, place in ipairs(places) do
    for _, name in ipairs(try('ZRANGE', INDEXES[place], 0, -1)) do
      if not seen[name] and try('ZSCORE', NAMES, name) then all[#all + 1], seen[name] = name, true end
    end
  end
  return all
end

local last = #names == most and names[most] or ''
local few = last ~= '' and indexed()
if few then names, last = few, '' end

local function add(i, more)
  if more and more > 0 and more <= LAST then sums[i] = (sums[i] or 0) + more end
end

-- How many members that count are in the place of a topic.
local function size(place, topic)
  local key = Marks.place_named(place, topic)
  if from .. to == '' or place ~= 'scheduled:' and place ~= 'ready:' then return try('ZCARD', key) end
  return try('ZCOUNT', key, from == '' and '-inf' or from, to == '' and '+inf' or to)
end

local function add_indexed(place)
  local times = try('ZMSCORE', INDEXES[place], unpack(names))
  for i, name in ipairs(names) do
    if not times or times[i] then add(i, of_members and size(place, name) or not of_members and 1) end
  end
end

local function add_counted(place)
  local fields = {}
  for i, name in ipairs(names) do fields[i] = name .. ':' .. place end
  local counters = try('HMGET', TOPICS, unpack(fields)) or {}
  for i = 1, #names do add(i, tonumber(counters[i] or 0)) end
end

for _, place in ipairs(#names > 0 and places or {}) do
  (INDEXES[place] and add_indexed or add_counted)(place)
end
local reply = { last }
for i, name in ipairs(names) do
  if sums[i] then
    reply[#reply + 1] = name
    reply[#reply + 1] = text(sums[i])
  end
end
return reply
