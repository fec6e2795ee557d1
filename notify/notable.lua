-- Looks at a page of topics in an index that may be behind the truth, and sets it right: of what is ready by its oldest, or of
-- what is dead by its newest.
-- KEYS[10]: the index. ARGV[3]: what the keys of what it leads to begin with, ARGV[4]: rank from which on, ARGV[5]: how many,
--   ARGV[6]: 1 for the newest of each, from the newest on, 0 for the oldest, and paused topics are left out.
-- Reply: the rank of the next page, how many were looked at, the time of the last one in the index before it was set right, and
--   topics and times in ms.
-- The keys of topics are built here, because the topics are learned here; they carry the same hash tag.
local index, base, from, most, newest = KEYS[10], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6] == '1'
local place = newest and -1 or 0
local page
if newest then
  page = try('ZRANGE', index, from, from + most - 1, 'REV', 'WITHSCORES') or {}
else
  page = try('ZRANGE', index, from, from + most - 1, 'WITHSCORES') or {}
end

local stay, found = 0, {}
local function look_at(topic, stood)
  local first = try('ZRANGE', base .. topic, place, place, 'WITHSCORES')
  local time = (first or {})[2]
  if first and not time then
    call('ZREM', index, topic)
    return
  end
  if not time or time == stood then
    stay = stay + 1
  else
    call('ZADD', index, time, topic)
  end
  if time and is_topic(topic) and (newest or not paused(topic)) then
    found[#found + 1] = topic
    found[#found + 1] = text(time)
  end
end

for i = 1, #page, 2 do look_at(page[i], page[i + 1]) end
return { from + stay, #page / 2, page[#page] and text(page[#page]) or '', unpack(found) }
