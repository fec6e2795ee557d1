-- Looks at a page of all messages, in no order: of the records, since a message has one wherever it moves meanwhile.
-- ARGV[3]: what the topics' keys begin with, ARGV[4]: cursor, ARGV[5]: how many to look at, or some more.
-- Reply: the cursor of the next page, '0' at the end, now in ms, how many messages there are, and for each what is known of
--   it, as look.lua says, until the records fill BYTES; then members alone. One whose name is none of ours has no state.
-- The keys of topics are built here, because the topics are learned here; they carry the same hash tag.
local base = ARGV[3]
local _, now = clock()
local page = call('HSCAN', MESSAGES, ARGV[4], 'COUNT', ARGV[5])
local reply, size = { page[1], text(now), call('HLEN', MESSAGES) }, 0
for i = 1, #page[2], 2 do
  local member, record = page[2][i], page[2][i + 1]
  local topic = topic_of(member)
  if size >= BYTES then
    reply[#reply + 1] = { member }
  elseif topic and is_topic(topic) then
    reply[#reply + 1] = look_at(member, record, base .. 'ready:' .. topic, base .. 'dead:' .. topic, base .. 'schedule:' .. topic)
    size = size + #record
  else
    reply[#reply + 1] = { member, '' }
  end
end
return reply
