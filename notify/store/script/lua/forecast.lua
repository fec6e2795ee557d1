-- Counts what waits in the scheduled sets of topics by when it falls due, or their dead letters by when they died.
-- ARGV: 1 for dead letters, 0 for scheduled sets; how many edges, at least two; the edges in ms, ascending; then topics, or none for the
--   broadcasts of all topics.
-- Reply: of how many topics, at least one; how many schedules the shard has; then how many have a time before the first edge, between each
--   edge and the next, and at the last edge or later.
local MOST = 250 -- counts behind which no other topic is begun
local of_dead, n = ARGV[1] == '1', tonumber(ARGV[2])
local edges, sums, counted = column(3, n), {}, 0
for i = 1, n + 1 do sums[i] = 0 end

-- How many members have a time before an edge.
local function before(key, i)
  counted = counted + 1
  return try('ZCOUNT', key, '-inf', '(' .. edges[i]) or 0
end

-- Adds the members between two edges, by how many are before each. What is empty is not divided further.
local function divide(key, from, to, first, last)
  if first == last then return end
  if to - from == 1 then
    sums[to] = sums[to] + last - first
    return
  end
  local middle = math.floor((from + to) / 2)
  local between = before(key, middle)
  divide(key, from, middle, first, between)
  divide(key, middle, to, between, last)
end

local function add(key)
  local all = try('ZCARD', key) or 0
  counted = counted + 1
  if all == 0 then return end
  local first, last = before(key, 1), before(key, n)
  sums[1], sums[n + 1] = sums[1] + first, sums[n + 1] + all - last
  divide(key, 1, n, first, last)
end

local topics = 0
if #ARGV == n + 2 then add(BROADCASTS) end
for i = n + 3, #ARGV do
  if counted > MOST then break end
  local topic = ARGV[i]
  add(of_dead and dead_of(topic) or scheduled_of(topic))
  topics = topics + 1
end
return { topics, try('ZCARD', SCHEDULES) or 0, unpack(sums) }
