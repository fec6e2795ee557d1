-- Looks at messages of one topic by name.
-- ARGV: topic, members.
-- Reply: for each member, until the records fill BYTES, what is known of it, as look_at says.
local topic = ARGV[1]
local members = column(2, #ARGV - 1)
local reply = {}
for i, record in ipairs(records_of(members)) do reply[i] = look_at(topic, members[i], record) end
return reply
