-- Lists the members of one place, by time, a page at a time.
-- KEYS[10..13]: ready, waiting, dead and schedule of the topic.
-- ARGV[3]: topic, ARGV[4]: state, or broadcasts for those that wait, ARGV[5]: limit, ARGV[6], ARGV[7]: time and member of the last one seen, or ''.
-- Reply: time and member of where to go on, '' at the end, and the members. A page may be short and not be the last:
--   broadcasts and leases hold all topics, and of them 1,000 are looked at.
local SCAN = 1000
local topic, limit, time, last = ARGV[3], tonumber(ARGV[5]), ARGV[6], ARGV[7]
local key = ({ scheduled = KEYS[13], leased = LEASED, ready = KEYS[10], dead = KEYS[12], broadcasts = BROADCASTS })[ARGV[4]]
local mixed = key == LEASED or key == BROADCASTS

-- Whether a stands behind b in a sorted set, which compares bytes; < would ask the locale.
local function behind(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x > y end
  end
  return #a > #b
end

-- The rank of the first one behind the last one seen, which may be gone: a search by halves among those of its time.
local function go_on()
  local from, to = call('ZCOUNT', key, '-inf', '(' .. time), call('ZCOUNT', key, '-inf', time)
  while from < to do
    local middle = math.floor((from + to) / 2)
    if behind(call('ZRANGE', key, middle, middle)[1], last) then to = middle else from = middle + 1 end
  end
  return from
end

local rank = time == '' and 0 or go_on()
local page = call('ZRANGE', key, rank, rank + (mixed and SCAN or limit) - 1, 'WITHSCORES')
local members = {}
local seen = 0
for i = 1, #page, 2 do
  local member = page[i]
  seen = i
  if not mixed or topic_of(member) == topic then
    members[#members + 1] = member
    if #members == limit then break end
  end
end
if seen == 0 then return { '', '', members } end
return { page[seen + 1], page[seen], members }
