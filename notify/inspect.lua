-- Looks at messages of one topic by name.
-- KEYS[10..13]: ready, waiting, dead and schedule of the topic. ARGV[3..]: members.
-- Reply: for each member, until the records fill BYTES, what is known of it, as look.lua says.
local members = {}
for i = 3, #ARGV do members[#members + 1] = ARGV[i] end
local reply = {}
for i, record in ipairs(records_of(members)) do
  reply[i] = look_at(members[i], record, KEYS[10], KEYS[12], KEYS[13])
end
return reply
