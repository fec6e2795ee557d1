-- Extends the leases of messages of a topic.
-- ARGV: topic; lease in ms from now, 0 for that of each message or of its settings, or less to confirm hand-overs, whose leases then end
--   as their receipts say; then the members, then as many receipts of theirs.
-- Reply: the new receipt of those that have used up no attempt; the positions, from 1, of those whose lease is lost; then position and
--   new receipt of each whose lease ends at another time: it has its own, or the timeout of the try is before.
local topic, lease = ARGV[1], tonumber(ARGV[2])
local n = (#ARGV - 2) / 2
local members, receipts = column(3, n), column(3 + n, n)
local by_default = lease == 0
if by_default then
  local own, common = settings_of(topic)
  lease = setting('lease', own, common)
end
local us = clock()
local mine, lost = leased_under(members, receipts)
local receipt = receipt_of(us + lease * 1000, 0)
local was, leases = {}, {}
for i, member in ipairs(members) do was[member] = receipts[i] end
for _, member in ipairs(mine) do
  leases[#leases + 1] = lease < 0 and was[member] or receipt + math.floor(was[member]) % 10
  leases[#leases + 1] = member
end
local reply = { receipt, lost }
if lease < 0 or #mine == 0 or call('EXISTS', EXTRAS) == 0 then
  if #leases > 0 then put_leased(leases) end
  return reply
end

-- * * *

local position = {}
for i, member in ipairs(members) do position[member] = i end
for i, noted in ipairs(try('HMGET', EXTRAS, unpack(mine)) or {}) do
  local ends = end_of(us, by_default and extra(noted, 'lease') or lease, noted)
  local its = receipt_of(ends, leases[2 * i - 1] % 10)
  if its ~= leases[2 * i - 1] then
    leases[2 * i - 1] = its
    reply[#reply + 1] = position[mine[i]]
    reply[#reply + 1] = its
  end
end
put_leased(leases)
return reply
