-- Checks a page of topics in an index that may be out of date, and corrects it: topics with ready messages by their oldest, or with
-- dead letters by their newest.
-- ARGV: rank from which on, how many, 1 for dead letters, newest first; 0 for ready messages, without paused topics.
-- Reply: the rank of the next page, how many were checked, the time of the last one in the index before it was corrected, and topics
--   and times in ms.
local from, most, of_dead = unpack(ARGV)
local newest = of_dead == '1'
local index, rank = newest and NEWEST or READY, newest and -1 or 0
local page
if newest then
  page = try('ZRANGE', index, from, from + most - 1, 'REV', 'WITHSCORES') or {}
else
  page = try('ZRANGE', index, from, from + most - 1, 'WITHSCORES') or {}
end

local stay, found = 0, {}
local function check(topic, stood)
  local first = try('ZRANGE', newest and dead_of(topic) or ready_of(topic), rank, rank, 'WITHSCORES')
  local time = (first or {})[2]
  if first and not time then
    Places.correct_index(index, topic)
    return
  end
  if not time or time == stood then
    stay = stay + 1
  else
    Places.correct_index(index, topic, time)
  end
  if time and is_topic(topic) and (newest or not Settings.paused(topic)) then
    found[#found + 1] = topic
    found[#found + 1] = text(time)
  end
end

for i = 1, #page, 2 do check(page[i], page[i + 1]) end
return { from + stay, #page / 2, page[#page] and text(page[#page]) or '', unpack(found) }
