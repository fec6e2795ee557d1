-- Moves due messages and broadcasts, for the elected carrier only, and with a beat renews its lease.
-- ARGV: token, epoch, lease in ms, how many due members at the most, but for those of a whole scheduled set, how many broadcasts a log
--   keeps, and for how many ms, 1 with a beat, 1 with one that also looks at what changes slowly, and the cursor over the topics that have
--   something ready, for the beat; by how many ms schedules may be late, or it carries only messages of topics without schedules until they
--   are settled, '' if it carries in any case; if the carrier keeps a history, with a beat the lengths in bytes of the rings of seconds and of minutes,
--   and if it has samples of the second before, for each ring the place of the sample, and the sample.
-- Reply: 0 if another has the lease, and its token, or '' if it ran out. Else 1, in how many us the next thing is due (-1: nothing is
--   scheduled), and now in us. Then by name what there is of: took, in how many us (not of a beat that moved nothing); earliest, when the
--   first of those that were moved was due; moved, how many members were; handed, how many of those were handed over; lapsed, how many
--   hand-overs ended unconfirmed; runs, a list of due times, each with the number of scheduled messages of a topic that had it and were
--   made ready; buried and dropped, lists of member, reason, attempts used up; cursor for the next beat; kept, how many messages and
--   broadcasts there are, if it looked; repeated, for how many topics the beat repeated a ring; evicts, the policy that lets Redis evict
--   messages, if it looked; taker, a list of the standby that could take over and how many shards it carries; totals, the list of
--   note_history; fill, 1 if it is to fill schedules, and settle, 1 if it is to do that before more is carried.
local token, lease, beats = ARGV[1], ARGV[3], ARGV[7] == '1'
local holder = call('GET', CARRIER)
if holder ~= token then return { 0, holder or '' } end
if beats then call('PEXPIRE', CARRIER, lease) end
local c = Carry.begin(beats)
if c.heads[Alarms] <= c.us and ARGV[10] ~= '' and Schedules.are_unsettled(c.now, tonumber(ARGV[10])) then
  c.settle, c.changed = 1, true
end
if c.first <= c.us then Carry.carry_all(c) end
if beats then Beat.beat(c) end
return Carry.answer(c)
