-- Lists the schedules of all topics, a page at a time, in the order in which the carrier looks at them: those that it never looks at are last.
-- ARGV: how many; time and member of the last one seen, '' at first.
-- Reply: now in ms; how many there are in all; by which version of the rules of time zones they were filled last, '' if never; time and
--   member from which to continue, '' at the end; then of each its topic, its name, what was put without its message, its state as it is
--   shown, by its first time (see shared/schedules.lua), and when the carrier looks at it, in ms, '' if it does not.
local most, time, last = tonumber(ARGV[1]), ARGV[2], ARGV[3]
local _, now = clock()
local rank = time == '' and 0 or Marks.rank_behind(SCHEDULES, time, last)
local page = call('ZRANGE', SCHEDULES, rank, rank + most - 1, 'WITHSCORES')
local is_last = #page < 2 * most
local reply = { now, call('ZCARD', SCHEDULES), try('HGET', TOPICS, '*:zones') or '', is_last and '' or page[#page], is_last and '' or page[#page - 1] }
for i = 1, #page, 2 do
  local topic, name = string.match(page[i], '^([^:]+):(.+)$')
  local state = topic and try('HGET', schedules_of(topic), name)
  if state then
    local n = #reply
    reply[n + 1], reply[n + 2] = topic, name
    reply[n + 3] = Schedules.bare(try('HGET', rules_of(topic), name) or '')
    reply[n + 4], reply[n + 5] = Schedules.shown(topic, name, state, now, 1), page[i + 1] == 'inf' and '' or page[i + 1]
  end
end
return reply
