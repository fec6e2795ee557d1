-- Reads names of topics, sorted, in ranges of them, and what these have in places.
-- ARGV: how many names to read at the most; 1 to count members, 0 to count places; the due time in ms from and to which scheduled and
--   ready ones count, or ''; how many places; their names; then the two ends of each range, as ZRANGE takes them.
-- Reply: the last name that was read, '' if that was the end of the ranges; then the topics that have something there, each with how
--   much. Only what is counted may be in a place of all topics.
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
local reply = { #names == most and names[most] or '' }
for i, name in ipairs(names) do
  if sums[i] then
    reply[#reply + 1] = name
    reply[#reply + 1] = text(sums[i])
  end
end
return reply
