-- Extends the leases of messages of a topic.
-- ARGV: topic; lease in ms from now, 0 for that of its settings, or less to confirm hand-overs, whose leases then end as their
--   receipts say; then the members, then as many receipts of theirs.
-- Reply: the new receipt of those that have used up no attempt, then the positions, from 1, of those whose lease is lost.
local topic, lease = ARGV[1], tonumber(ARGV[2])
local n = (#ARGV - 2) / 2
local members, receipts = column(3, n), column(3 + n, n)
if lease == 0 then
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
if #leases > 0 then put_leased(leases) end
return { receipt, unpack(lost) }
