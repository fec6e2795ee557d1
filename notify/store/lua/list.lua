-- Lists the members of one place, by time, a page at a time.
-- KEY: the place.
-- ARGV: topic, limit, time and member of the last one seen, or ''.
-- Reply: time and member from which to continue, '' at the end, and the members. A page may be short and not be the last:
--   broadcasts and leases hold all topics, and 1,000 of them are read.
local topic, limit, time, last = unpack(ARGV)
local SCAN = 1000
limit = tonumber(limit)
local mixed = KEY == LEASED or KEY == BROADCASTS

-- Whether a comes after b in a sorted set, which compares bytes; < would compare by the locale.
local function behind(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x > y end
  end
  return #a > #b
end

-- The rank of the first one behind the last one seen, which may be gone: a binary search among those of its time.
local function rank_behind_last()
  local from, to = call('ZCOUNT', KEY, '-inf', '(' .. time), call('ZCOUNT', KEY, '-inf', time)
  while from < to do
    local middle = math.floor((from + to) / 2)
    if behind(call('ZRANGE', KEY, middle, middle)[1], last) then to = middle else from = middle + 1 end
  end
  return from
end

local rank = time == '' and 0 or rank_behind_last()
local page = call('ZRANGE', KEY, rank, rank + (mixed and SCAN or limit) - 1, 'WITHSCORES')
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
