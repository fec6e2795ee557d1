-- Finds messages in places of one kind, those of topics or the one of all topics, and describes those that match.
-- ARGV: name of the place, how much to do (a member is 1), the most matches; time and member of the last one seen in the first
--   place, or ''; the due time in ms from and to which, or ''; a part of the reason and of the body, or ''; 1 to read no records, where
--   nothing is looked for in them, and to describe dead letters by time and reason alone; how many parts of ids, and of what stands
--   before a body, follow; these parts; then the topics, or for the place of all topics what members begin with.
-- Reply: how many places it went through; time and member from which to continue in the next, or ''; now in ms; how many members it
--   looked at; of the place of all topics how many of each topic, in pairs; and the matches as describe returns them.
-- What it does is counted, since the clock may stand still during a script: a unit is about a microsecond or two, so that a call
-- that is to do 500 takes about one millisecond. It looks at one message at least, and reads FEW records ahead: large ones take longer.
local c, through = Find.begin(ARGV), 0
for _, topic in ipairs(c.mixed and { false } or c.topics) do
  if not Find.go_through(c, Marks.place_named(ARGV[1], topic), topic or nil) then break end
  through, c.time, c.last = through + 1, '', ''
  if Find.is_full(c) then break end
end
local pairs_of = {}
for topic, n in pairs(c.looked_of) do
  pairs_of[#pairs_of + 1] = topic
  pairs_of[#pairs_of + 1] = n
end
local _, now = clock()
return { through, c.time, c.last, now, c.looked, pairs_of, unpack(c.described) }
