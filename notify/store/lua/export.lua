-- Looks at a page of all messages, in no order: of the records, since a message has one wherever it moves meanwhile.
-- ARGV: cursor, how many to look at, or some more.
-- Reply: the cursor of the next page, '0' at the end, now in ms, how many messages there are, and for each what is known of
--   it, as look_at says, until the records fill BYTES; then members alone. One whose name is none of ours has no state.
local cursor, most = unpack(ARGV)
local _, now = clock()
local page = call('HSCAN', MESSAGES, cursor, 'COUNT', most)
local reply, size = { page[1], now, call('HLEN', MESSAGES) }, 0
for i = 1, #page[2], 2 do
  local member, record = page[2][i], page[2][i + 1]
  local topic = topic_of(member)
  if size >= BYTES then
    reply[#reply + 1] = { member }
  elseif topic and is_topic(topic) then
    reply[#reply + 1] = look_at(topic, member, record)
    size = size + #record
  else
    reply[#reply + 1] = { member, '' }
  end
end
return reply
