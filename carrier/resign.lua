-- Gives up the carrier's lease and tells the standbys.
-- KEYS[10]: carrier. ARGV[3]: its token, ARGV[4]: the channel of the standbys.
-- Reply: 1 if the lease was its own, else 0.
if call('GET', KEYS[10]) ~= ARGV[3] then return { 0 } end
call('DEL', KEYS[10])
tell(ARGV[4], '')
return { 1 }
