-- Extends the leases of messages of a topic.
-- ARGV: topic; lease in ms from now, 0 for that of each message or of its settings, or less to confirm hand-overs, whose leases then end
--   as their receipts say, unless they were extended before; the name of the worker, or ''; 0, or, so that the receipts stay valid, for
--   how many ms longer than the leases they do; then the members, then as many receipts of theirs; behind these of one member may stand
--   how far the work on it is: PERCENT,NOTE.
-- Reply: the new receipt of those that have used up no attempt; the positions, from 1, of those whose lease is lost; then position and
--   new receipt of each whose lease ends at another time: it has its own, or the timeout of the try is before; or position and 0 of each
--   whose lease goes on as it is, since the message is to be cancelled. A confirmation does not look for that.
local topic, lease, worker, longer = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])
local n = math.floor((#ARGV - 4) / 2)
local c = { topic = topic, us = clock(), lease = lease, by_default = lease == 0, worker = worker, members = column(5, n) }
if c.by_default then
  local own, common = Settings.settings_of(topic)
  c.lease = Settings.get('lease', own, common)
end
Extend.find(c, column(5 + n, n))
local reply = { c.receipt, c.lost }
local kept = #c.mine > 0 and call('EXISTS', EXTRAS, EXTRAS, CLAIMS) or 0 -- EXTRAS counts as two
local noted = lease >= 0 and kept >= 2 and try('HMGET', EXTRAS, unpack(c.mine)) or {}
if #noted > 0 then Extend.leave_stopped(c, noted, reply) end
local mine, leases = c.mine, c.leases
if #mine > 0 and (worker ~= '' or kept > 0 and (lease >= 0 or kept ~= 2)) then
  local own = Extend.own_receipts(c, noted)
  Extend.note_holders(c, (worker ~= '' or kept % 2 == 1) and call('ZMSCORE', LEASED, unpack(mine)) or {}, own)
  for _, value in ipairs(Extend.use_own(c, own)) do reply[#reply + 1] = value end
end
for i = 1, longer > 0 and #leases or 0, 2 do Leases.note_extended(leases[i + 1], c.given[leases[i + 1]], leases[i], c.us, longer) end
local progress = ARGV[5 + 2 * n]
if progress and #leases > 0 and Memory.has_room(math.floor(c.us / 1000)) then Extend.note_progress(mine[1], leases[1], progress) end
if #leases > 0 then Leases.put_leased(leases) end
return reply
