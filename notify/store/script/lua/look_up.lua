-- Looks for the messages of one id in topics, in whatever place they are, and describes them; but not an id that just stays taken.
-- ARGV: the id, how much to do (a topic is 1), the most messages; then the topics.
-- Reply: in how many topics it looked, from the first on; now in ms; and the messages as describe returns them.
-- A unit is about a microsecond or two, as in find.lua. It looks in one topic at least, and reads one record at a time.
local id, most_work, most = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local looked, work, described, members = 0, 0, {}, {}
for i = 4, #ARGV do members[i - 3] = ARGV[i] .. ':' .. id end
local reasons = try('HMGET', DEATHS, unpack(members)) or {} -- of dead letters, also of those without a record
for i, member in ipairs(members) do
  local record = call('HGET', MESSAGES, member)
  looked, work = looked + 1, work + 1
  if not record and reasons[i] or record and (Messages.is_kept(record) or not Messages.is_done(record)) then
    described[#described + 1] = Describe.describe(ARGV[i + 3], member, record)
    work = work + Describe.MATCH + #(record or '') / Describe.VOLUME
  end
  if work >= most_work or #described >= most then break end
end
local _, now = clock()
return { looked, now, unpack(described) }
