-- Looks for the messages of one id in topics, in whatever place they are, and describes them; but not an id that just stays taken.
-- ARGV: the id, how much to do (a topic is 1), the most messages; then the topics.
-- Reply: in how many topics it looked, from the first on; now in ms; and the messages as describe returns them.
-- A unit is about a microsecond or two, as in find.lua. It looks in one topic at least, and reads one record at a time.
local id, most_work, most = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local looked, work, described = 0, 0, {}
for i = 4, #ARGV do
  local member = ARGV[i] .. ':' .. id
  local record = call('HGET', MESSAGES, member)
  looked, work = looked + 1, work + 1
  if record and (Messages.is_kept(record) or not Messages.is_done(record)) then
    described[#described + 1] = Describe.describe(ARGV[i], member, record)
    work = work + Describe.MATCH + #record / Describe.VOLUME
  end
  if work >= most_work or #described >= most then break end
end
local _, now = clock()
return { looked, now, unpack(described) }
