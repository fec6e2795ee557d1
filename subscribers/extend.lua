-- Extends the leases of messages.
-- ARGV[3]: lease in ms from now; then as many members as receipts: the members, then their receipts.
-- Reply: the new end of the leases in ms, then the positions, from 1, of those whose lease is lost.
local _, now = clock()
local n = (#ARGV - 3) / 2
local members, receipts = { unpack(ARGV, 4, 3 + n) }, { unpack(ARGV, 4 + n, 3 + 2 * n) }
local mine, lost = held(members, receipts)
local deadline = now + ARGV[3]
local leases = {}
for _, member in ipairs(mine) do
  leases[#leases + 1] = deadline
  leases[#leases + 1] = member
end
if #leases > 0 then call('ZADD', LEASED, unpack(leases)) end
return { deadline, unpack(lost) }
