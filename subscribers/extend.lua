-- Extends the leases of messages.
-- ARGV[3]: lease in ms from now; then as many members as receipts: the members, then their receipts.
-- Reply: the new receipt of those that have used up no attempt, then the positions, from 1, of those whose lease is lost.
local us = clock()
local n = (#ARGV - 3) / 2
local members, receipts = { unpack(ARGV, 4, 3 + n) }, { unpack(ARGV, 4 + n, 3 + 2 * n) }
local mine, lost = held(members, receipts)
local receipt = receipt_of(us + ARGV[3] * 1000, 0)
local was, leases = {}, {}
for i, member in ipairs(members) do was[member] = receipts[i] end
for _, member in ipairs(mine) do
  leases[#leases + 1] = receipt + digit_of(was[member])
  leases[#leases + 1] = member
end
if #leases > 0 then call('ZADD', LEASED, unpack(leases)) end
return { receipt, unpack(lost) }
