-- Gives up the carrier's lease and tells the standbys.
-- ARGV: its token.
-- Reply: 1 if it still had the lease, else 0.
local token = ARGV[1]
if call('GET', CARRIER) ~= token then return { 0 } end
call('DEL', CARRIER)
tell(VACANT, '')
return { 1 }
