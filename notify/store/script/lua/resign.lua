-- Gives up the carrier's lease and tells the standbys.
-- ARGV: its token; of several shards, the name of the standby that is to take over, or '' for the one that carries the fewest shards,
--   and how many others the carrier gave up before.
-- Reply: 1 if it still had the lease, else 0.
local token = ARGV[1]
if call('GET', CARRIER) ~= token then return { 0 } end
call('DEL', CARRIER)
tell(VACANT, SHARDED and Standbys.heir_to_shard(ARGV[2],ARGV[3]) or '')
return { 1 }
