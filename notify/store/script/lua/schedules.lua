-- Reads a page of the schedules of a topic, in no order: one that is there all the time is in a page, and may be in several. After a restart of
-- Redis that is the first page again.
-- ARGV: topic, cursor, 0 at first; about how many; 1 to leave the messages out of what was put, or 0.
-- Reply: the cursor of the next page, 0 at the end; then for each its name, what was put, '' if all are too large for one reply, and its state as it
--   is shown, by its first five times (see shared/schedules.lua).
local topic, cursor, most, bare = unpack(ARGV)
local page = Scans.page(try, 'HSCAN', schedules_of(topic), cursor, most) or { '0', {} }
local reply, size, _, now = { page[1] }, 0, clock()
for i = 1, #page[2], 2 do
  local rule = size <= BYTES and try('HGET', rules_of(topic), page[2][i]) or ''
  if bare == '1' then rule = Schedules.bare(rule) end
  reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = page[2][i], rule, Schedules.shown(topic, page[2][i], page[2][i + 1], now, 5)
  size = size + #rule
end
return reply
