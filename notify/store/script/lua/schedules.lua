-- Reads a page of the schedules of a topic, or of all of the shard, in no order: one that is there all the time is in a page, and may be in several. After
-- a restart of Redis that is the first page again.
-- ARGV: topic, '' for all; cursor, 0 at first; about how many; 1 to leave the messages out of what was put, or 0.
-- Reply: the cursor of the next page, 0 at the end; then for each its topic, its name, what was put, '' if all are too large for one reply, and its
--   state as it is shown, by its first five times (see shared/schedules.lua).
local of, cursor, most, bare = unpack(ARGV)
local is_all = of == ''
local page = Scans.page(try, is_all and 'ZSCAN' or 'HSCAN', is_all and SCHEDULES or schedules_of(of), cursor, most) or { '0', {} }
local reply, size, _, now = { page[1] }, 0, clock()
for i = 1, #page[2], 2 do
  local topic, name, state = of, page[2][i], page[2][i + 1]
  if is_all then
    topic, name = string.match(name, '^([^:]+):(.+)$')
    state = topic and try('HGET', schedules_of(topic), name)
  end
  if state then
    local rule = size <= BYTES and try('HGET', rules_of(topic), name) or ''
    if bare == '1' then rule = Schedules.bare(rule) end
    for _, value in ipairs({ topic, name, rule, Schedules.shown(topic, name, state, now, 5) }) do reply[#reply + 1] = value end
    size = size + #rule
  end
end
return reply
