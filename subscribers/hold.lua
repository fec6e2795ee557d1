-- Extends the leases of broadcasts that a process of a named listener has in hand.
-- KEYS[10]: held, KEYS[11]: handed. ARGV[3]: name, ARGV[4]: lease in ms from now; then as many members as receipts: the
--   members, then their receipts.
-- Reply: the new end of the leases in ms, then the positions, from 1, of those whose lease is lost.
local _, now = clock()
local n = (#ARGV - 4) / 2
local deadline = now + ARGV[4]
local lost = {}
for i = 5, 4 + n do
  if call('ZSCORE', KEYS[10], ARGV[i]) == ARGV[i + n] then
    call('ZADD', KEYS[10], deadline, ARGV[i])
  else
    lost[#lost + 1] = i - 4
  end
end
local head = call('ZRANGE', KEYS[10], 0, 0, 'WITHSCORES')[2]
if head then try('ZADD', KEYS[11], head, ARGV[3]) end
return { deadline, unpack(lost) }
