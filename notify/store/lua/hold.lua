-- Extends the leases of broadcasts of a process of a named listener.
-- ARGV: name; lease in ms from now; then the members, then as many receipts of theirs.
-- Reply: the new end of the leases in ms, then the positions, from 1, of those whose lease is lost.
local name, lease = unpack(ARGV, 1, 2)
local n = (#ARGV - 2) / 2
local members, receipts = column(3, n), column(3 + n, n)
local _, now = clock()
local held = held_of(name)
local deadline = now + tonumber(lease)
local lost = {}
for i, member in ipairs(members) do
  if call('ZSCORE', held, member) == receipts[i] then
    call('ZADD', held, deadline, member)
  else
    lost[#lost + 1] = i
  end
end
index_handed(name)
return { deadline, unpack(lost) }
