-- Lists the members of one place, by time, a page at a time.
-- KEY: the place.
-- ARGV: topic, limit, time and member of the last one seen, or '', and 1 for the latest first.
-- Reply: time and member from which to continue, '' at the end, and the members. A page may be short and not be the last:
--   broadcasts and leases hold all topics, and 1,000 of them are read.
local topic, limit, time, last, latest = unpack(ARGV)
local SCAN = 1000
limit, latest = tonumber(limit), latest == '1'
local mixed = KEY == LEASED or KEY == BROADCASTS

local rank = time == '' and 0 or Marks.rank_behind(KEY, time, last, latest)
local upto = rank + (mixed and SCAN or limit) - 1
local page = latest and call('ZRANGE', KEY, rank, upto, 'REV', 'WITHSCORES') or call('ZRANGE', KEY, rank, upto, 'WITHSCORES')
local members = {}
local seen = 0
for i = 1, #page, 2 do
  local member = page[i]
  seen = i
  if not mixed or topic_of(member) == topic then
    members[#members + 1] = Marks.member_in(KEY, topic, member)
    if #members == limit then break end
  end
end
if seen == 0 then return { '', '', members } end
local score = page[seen + 1]
return { score % 1 == 0 and text(score) or score, page[seen], members } -- that of a hand-over has a fraction
