-- Reads a page of all messages, in no order: it pages the records, since a message has one wherever it moves meanwhile.
-- ARGV: cursor, how many to read, or some more.
-- Error: RESTARTED if another process of Redis gave the cursor.
-- Reply: the cursor of the next page, '0' at the end, now in ms, how many messages there are, and for each what is known about
--   it, as describe returns it, until the records fill BYTES; then members alone. A record with a foreign name has no state.
local cursor, most = unpack(ARGV)
local _, now = clock()
local page, anew = Scans.page(call, 'HSCAN', MESSAGES, cursor, most)
if anew then return redis.error_reply('RESTARTED another process gave the cursor') end
local reply, size = { page[1], now, call('HLEN', MESSAGES) - (try('ZCARD', TAKEN) or 0) }, 0
for i = 1, #page[2], 2 do
  local member, record = page[2][i], page[2][i + 1]
  local topic = topic_of(member)
  if size >= BYTES then
    if not Messages.is_done(record) then reply[#reply + 1] = { member } end
  elseif Messages.is_done(record) then
    size = size + #record
  elseif topic and is_topic(topic) then
    local all = Describe.describe(topic, member, record)
    reply[#reply + 1] = all
    size = size + #record + #(all[4] or '')
  else
    reply[#reply + 1] = { member, '' }
  end
end
return reply
