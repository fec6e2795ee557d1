-- Inspects messages of a topic, and has their ends announced on ENDED.
-- ARGV: topic; for how many ms; members.
-- Reply: for each member, until the records fill BYTES, what is known about it, as describe returns it: one that has not ended has await
--   among what is noted of it.
local topic, wait = unpack(ARGV, 1, 2)
local _, now = clock()
local until_ms = math.min(now + wait, MAX)
local members = column(3, #ARGV - 2)
local reply = {}
for i, record in ipairs(Messages.records_of(members)) do
  reply[i] = Describe.describe(topic, members[i], record)
  local state, noted = reply[i][2], reply[i][8]
  if state ~= '' and state ~= 'dead' and state ~= 'done' then
    if until_ms > (Extras.extra(noted, 'await') or 0) and not Extras.put_extra(members[i], 'await', until_ms) then
      return redis.error_reply('what is noted of messages is foreign: ' .. EXTRAS)
    end
    reply[i][8] = Extras.noted_of(members[i])
  end
end
return reply
