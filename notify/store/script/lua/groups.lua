-- Lists groups of a topic, the latest first.
-- ARGV: topic, the number from which on, '' for the last one; the most groups.
-- Reply: the number from which the next page goes on, 0 at the end; and each group as Callbacks.describe returns it. A page may be short before
--   the end: numbers of groups that are forgotten are passed over.
local PASSED = 1000
local topic, from, most = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
from = from or tonumber(try('HGET', groups_of(topic), '*') or try('HLEN', groups_of(topic)) or 0)
local last, reply = math.max(from - PASSED, 0), { 0 }
while from > last and #reply <= most do
  local g = Groups.read(topic, from)
  if g then reply[#reply + 1] = Callbacks.describe(topic, g) end
  from = from - 1
end
reply[1] = text(from)
return reply
