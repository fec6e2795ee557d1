-- Finds groups, a page of one topic's in each call, that go on for good unless somebody does something: those of which only dead letters are left, and
-- these hold back what waits for them; and those for which nothing waits since long.
-- ARGV: the rank of the topic in GROUPED, and the cursor in its groups, 0 and 0 at first; about how many to look at; for how many ms nothing may wait.
-- Reply: now in ms; rank and cursor of the next page, -1 and 0 at the end; then of each group its topic, name, callback, '' if it has none, how many are
--   left, how many of these are dead, and since when it is so or so open, in ms.
local rank, cursor, most, long = tonumber(ARGV[1]), ARGV[2], ARGV[3], tonumber(ARGV[4])
local _, now = clock()
local topic = (try('ZRANGE', GROUPED, rank, rank) or {})[1]
if not topic then return { now, -1, '0' } end
local page = is_topic(topic) and try('HSCAN', groups_of(topic), cursor, 'COUNT', most) or { '0', {} }
local reply = { now, page[1] == '0' and rank + 1 or rank, page[1] }

local function add(g, ...)
  for _, value in ipairs({ topic, g.name, ... }) do reply[#reply + 1] = value end
end

for i = 1, #page[2], 2 do
  local n = string.match(page[2][i], '^#(%d+)$')
  local g = n and Groups.read(topic, tonumber(n))
  if g and not g.complete and not g.restoring then
    local living, left = try('ZCOUNT', grouped_of(topic), n, n) or 0, try('ZCOUNT', grouped_of(topic), n, n .. '.5') or 0
    local callback = Callbacks.of(topic, g)
    if callback and not g.go and living == 0 and left > 0 then
      add(g, callback, left, left, g.changed or now)
    elseif not callback and left > 0 and now - (g.opened or now) >= long then
      add(g, '', left, left - living, g.opened)
    end
  end
end
return reply
