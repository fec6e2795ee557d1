-- Acknowledges messages of a topic: they are gone.
-- ARGV[3]: topic; then as many members as receipts: the members, then their receipts.
-- Reply: the positions, from 1, of those whose lease is lost.
local n = (#ARGV - 3) / 2
local members, receipts = { unpack(ARGV, 4, 3 + n) }, { unpack(ARGV, 4 + n, 3 + 2 * n) }
local mine, lost = held(members, receipts)
if #mine > 0 then
  local acked = call('ZREM', LEASED, unpack(mine)) -- one that is named twice counts once
  forget(mine)
  count(ARGV[3], 'leased', -acked)
  count(ARGV[3], 'acked', acked)
end
return lost
