-- Inspects messages of one topic.
-- ARGV: topic, members.
-- Reply: for each member, until the records fill BYTES, what is known about it, as describe returns it.
local topic = ARGV[1]
local members = column(2, #ARGV - 1)
local reply = {}
for i, record in ipairs(records_of(members)) do reply[i] = describe(topic, members[i], record) end
return reply
