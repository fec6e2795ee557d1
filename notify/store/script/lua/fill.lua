-- Makes occurrences of schedules ahead of their times, for the elected carrier only, and answers which schedules it is to look at next. The
-- calendar is the carrier's process's, which computes what to make from what the call before answered.
-- ARGV: token; 1 if it settles what was missed before it carries; most schedules to answer. Then for each schedule that is filled: topic, name,
--   its revision and its cursor, which must be there still; the new cursor; up to when in ms what is due, was made, and waits is withdrawn, '' for none;
--   how many it missed; 1 if it cannot be read, else 0; when to look at it again in ms, '' for never; and how many occurrences are made: of each
--   its time in seconds, when it is due in ms, JSON of what it asks for, as publish_as.lua, and its record without its times.
-- Reply: 0 if another has the lease, and its token, or '' if it ran out. Else 1, now in ms, a list of what became of each that was filled: made,
--   stale if it was changed meanwhile, or foreign; and a list of those to look at, each topic, name, what was put, its state, and
--   a list of the times of occurrences that are due and wait as they were made, if it settles.
local holder = call('GET', CARRIER)
if holder ~= ARGV[1] then return { 0, holder or '' } end
local refusal, us, now = Memory.refuse_to_grow()
if refusal then return refusal end
local c = { us = us, now = now, rings = {}, later = {}, latest = {} }
local made, i = {}, 4
while i <= #ARGV do
  i, made[#made + 1] = Schedules.make(c, i)
end
for topic, n in pairs(c.rings) do Rings.ring(topic, n, us) end
local page = Schedules.due_page(now, ARGV[2] == '1', tonumber(ARGV[3]))
if not page[1] then Schedules.set_alarm() end
return { 1, now, made, page }
