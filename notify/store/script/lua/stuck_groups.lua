-- Counts groups by state, a page in each call, and finds those that go on for good unless somebody does something: those that are held; those for which
-- nothing waits since long; and those of which the restoring has not gone on for some time.
-- ARGV: topic and cursor of the page, '' and 0 at first; about how many to look at; for how many ms nothing may wait, and for how many one may be restored.
-- Reply: now in ms; topic and cursor of the next page, '' and 0 at the end; how many of the page are open, waiting, held, complete and restoring; then of
--   each that is stuck its topic, name, state, callback, '' if it has none, how many are left, how many of these are dead, and since when it is so or so
--   open, in ms.
local topic, cursor, most, long, restored = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local _, now = clock()
local STATES = { open = 4, waiting = 5, held = 6, complete = 7, restoring = 8 } -- where the reply has their number
local reply, seen = { now, '', '', 0, 0, 0, 0, 0 }, 0

-- Since when a group is stuck; nil if it is not.
local function stuck_since(g, state, left)
  local opened, changed = g.opened or now, g.changed or now
  if state == 'held' or state == 'restoring' and now - changed >= restored then return changed end
  if state == 'open' and left > 0 and now - opened >= long then return opened end
end

local function look(g)
  local state, living, dead, callback = Callbacks.state_of(topic, g)
  local since = stuck_since(g, state, living + dead)
  reply[STATES[state]] = reply[STATES[state]] + 1
  if not since then return end
  for _, value in ipairs({ topic, g.name, state, callback, living + dead, dead, since }) do reply[#reply + 1] = value end
end

while seen < most do
  if cursor == '0' then
    topic = (try('ZRANGE', GROUPED, topic == '' and '-' or '(' .. topic, '+', 'BYLEX', 'LIMIT', 0, 1) or {})[1]
    if not topic then break end
  end
  local page = is_topic(topic) and try('HSCAN', groups_of(topic), cursor, 'COUNT', 2 * (most - seen)) or { '0', {} } -- each has two fields
  cursor, seen = page[1], seen + 1
  for i = 1, #page[2], 2 do
    local n = string.match(page[2][i], '^#(%d+)$')
    local g = n and Groups.read(topic, tonumber(n))
    if g then
      look(g)
      seen = seen + 1
    end
  end
end
reply[2], reply[3] = topic or '', cursor
return reply
