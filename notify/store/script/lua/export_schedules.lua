-- Reads a page of the schedules of all topics, in no order: one that is there all the time is in a page, and may be in two.
-- ARGV: cursor, 0 at first; about how many.
-- Error: RESTARTED if another process of Redis gave the cursor.
-- Reply: the cursor of the next page, 0 at the end; by which version of the rules of time zones schedules were filled; then for each its topic, name,
--   what was put, '' if all are too large for one reply, and its state (see shared/schedules.lua). The topic '' stands for what is foreign.
local cursor, most = unpack(ARGV)
local page, anew = Scans.page(try, 'ZSCAN', SCHEDULES, cursor, most)
if anew then return redis.error_reply('RESTARTED another process gave the cursor') end
local reply, size = { page and page[1] or '0', try('HGET', TOPICS, '*:zones') or '' }, 0
local function add(topic, name, rule, state)
  for _, value in ipairs({ topic, name, rule, state }) do reply[#reply + 1] = value end
  size = size + #rule
end
if not page then add('', SCHEDULES, '', '') end
for i = 1, page and #page[2] or 0, 2 do
  local topic, name = string.match(page[2][i], '^([^:]+):(.+)$')
  if not topic then
    add('', page[2][i], '', '')
  else
    local rule, state = size <= BYTES and try('HGET', rules_of(topic), name), try('HGET', schedules_of(topic), name)
    if rule or state then add(topic, name, rule or '', state or '') end
  end
end
return reply
