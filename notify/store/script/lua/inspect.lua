-- Inspects messages of one topic.
-- ARGV: topic, members.
-- Reply: for each member, until the records, or the attempts, fill BYTES, what is known about it, as describe returns it.
local topic = ARGV[1]
local members = column(2, #ARGV - 1)
local reply, size = {}, 0
for i, record in ipairs(Messages.records_of(members)) do
  if size >= BYTES then break end
  reply[i] = Describe.describe(topic, members[i], record)
  size = size + #(reply[i][4] or '')
end
return reply
