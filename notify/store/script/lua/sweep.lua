-- A step of the housekeeping, for the elected carrier only: removes dead letters that are too old or too many, and logs in which all
-- is too old, forgets topics of which nothing is left, workers and standbys that are gone, and who claimed what is leased no more, and
-- frees ids that were taken long enough. It checks only what may need it, some in each call: the topics whose oldest dead letter is too old, in
-- OLDEST, whose log did not grow for long, in LOGS, and those not checked for long, in SEEN. Each death removes dead letters that are
-- too many; those that were too many before are removed here, a page of topics in each call. What an archive has not stored is trimmed to its room.
-- ARGV: token, rank in OLDEST from which it checks whether there are too many, how many dead letters of a topic are kept, and for how
--   many ms, for how many ms a topic is remembered, and a log keeps broadcasts, and the rank in the logs that are old; how many that
--   succeeded a topic keeps, and for how many ms, and the rank in DONE from which it checks whether there are too many; where it
--   goes on to look at seats, and where at groups, 0 0 0 at first.
-- Reply: 0 if another has the lease, and its token, or '' if it ran out. Else 1, both ranks for the next call, 1 if there is more to do
--   soon, 1 if there is more to check, 1 if all of OLDEST was checked, how many topics were forgotten, how many dead letters were
--   removed by deaths, how many entries of the stream of endings were removed since the last call, and a list of the topics whose dead letters
--   this call removed: topic and how many; the rank in DONE for the next call, and how many that succeeded were removed because a topic
--   had too many, since the last call; and where to go on with seats, and with groups.
local holder = call('GET', CARRIER)
if holder ~= ARGV[1] then return { 0, holder or '' } end

local c = Sweep.begin(ARGV, clock())
if Ends.trim_endings(try('HGET', EXTRAS, '*'), 2000) then c.soon = 1 end
local by_deaths, unarchived = Sweep.removed_by_deaths(c)
Sweep.remove_aged(c)
if c.left > 0 then Sweep.remove_too_many(c) end
Sweep.remove_logs(c)
Sweep.forget_topics(c)
Sweep.forget_positions(c)
Sweep.forget_claims(c)
Sweep.forget_workers()
if SHARDED then Standbys.forget_standbys(c.now) end
Sweep.free_ids(c)
Sweep.mend_seats(c)
Sweep.mend_groups(c)
local by_acks = Sweep.removed_by_acks(c)
local too_many = Sweep.remove_done(c)
return {
  1, c.rank, c.log_rank, c.soon, c.full, c.left > 0 and c.rank == 0 and 1 or 0, c.forgotten, by_deaths, unarchived, c.removed, c.done_rank,
  by_acks + too_many, c.seat, c.group,
}
