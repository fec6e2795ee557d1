-- Looks at a page of topics in an index that may be behind the truth, and sets it right: of what is ready by its oldest, or of
-- what is dead by its newest.
-- ARGV: rank from which on, how many, 1 for the dead, from the newest on; 0 for the ready, and paused topics are left out.
-- Reply: the rank of the next page, how many were looked at, the time of the last one in the index before it was set right, and
--   topics and times in ms.
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
local function look_into(topic, stood)
  local first = try('ZRANGE', newest and dead_of(topic) or ready_of(topic), rank, rank, 'WITHSCORES')
  local time = (first or {})[2]
  if first and not time then
    settle_index(index, topic)
    return
  end
  if not time or time == stood then
    stay = stay + 1
  else
    settle_index(index, topic, time)
  end
  if time and is_topic(topic) and (newest or not paused(topic)) then
    found[#found + 1] = topic
    found[#found + 1] = text(time)
  end
end

for i = 1, #page, 2 do look_into(page[i], page[i + 1]) end
return { from + stay, #page / 2, page[#page] and text(page[#page]) or '', unpack(found) }
