-- Extends the leases of messages of a topic.
-- ARGV: topic; lease in ms from now, 0 for that of each message or of its settings, or less to confirm hand-overs, whose leases then end
--   as their receipts say, unless they were extended before; the name of the worker, or ''; 0, or, so that the receipts stay valid, for
--   how many ms longer than the leases they do; then the members, then as many receipts of theirs.
-- Reply: the new receipt of those that have used up no attempt; the positions, from 1, of those whose lease is lost; then position and
--   new receipt of each whose lease ends at another time: it has its own, or the timeout of the try is before.
local topic, lease, worker, longer = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])
local n = (#ARGV - 4) / 2
local members, receipts = column(5, n), column(5 + n, n)
local by_default = lease == 0
if by_default then
  local own, common = Settings.settings_of(topic)
  lease = Settings.get('lease', own, common)
end
local us = clock()
local given, was, leases = {}, {}, {}
for i, member in ipairs(members) do given[member] = receipts[i] end
local mine, lost = Leases.leased_under(members, receipts)
local receipt = Leases.receipt_of(us + lease * 1000, 0)
for i, member in ipairs(members) do was[member] = receipts[i] end
for _, member in ipairs(mine) do
  local confirmed = lease < 0 and (was[member] % 1 > 0 and given or was)[member]
  leases[#leases + 1] = confirmed or receipt + math.floor(was[member]) % 10
  leases[#leases + 1] = member
end

local function put_extended()
  for i = 1, longer > 0 and #leases or 0, 2 do Leases.note_extended(leases[i + 1], given[leases[i + 1]], leases[i], us, longer) end
  if #leases > 0 then Leases.put_leased(leases) end
end

local reply = { receipt, lost }
local kept = #mine > 0 and call('EXISTS', EXTRAS, EXTRAS, CLAIMS) or 0 -- EXTRAS counts as two
if #mine == 0 or worker == '' and (kept == 0 or lease < 0 and kept == 2) then
  put_extended()
  return reply
end

local position, own = {}, {} -- own: receipts of leases that end at another time
for i, member in ipairs(members) do position[member] = i end
for i, noted in ipairs(lease >= 0 and kept >= 2 and try('HMGET', EXTRAS, unpack(mine)) or {}) do
  local ends = Fates.end_of(us, by_default and Extras.extra(noted, 'lease') or lease, noted)
  local its = Leases.receipt_of(ends, leases[2 * i - 1] % 10)
  if its ~= leases[2 * i - 1] then own[i] = its end
end

-- Who has these, and since when, is to be known by the new receipts, too: what was claimed by one call has one, and where the end of the
-- lease may differ, what others claimed has another, some us later.
local known, taken, list = {}, {}, {}
for i, score in ipairs((worker ~= '' or kept % 2 == 1) and call('ZMSCORE', LEASED, unpack(mine)) or {}) do
  local was_base = math.floor(score / 10)
  if not known[was_base] or score % 1 > 0 then known[was_base] = { Attempts.holder_after(topic, tonumber(score), worker) } end
  local holder, since = unpack(known[was_base])
  if holder then
    local its, who = tonumber(own[i] or leases[2 * i - 1]), since .. ' ' .. holder
    local base = its - its % 10
    while lease >= 0 and not own[i] and (taken[base] or who) ~= who do base = base + 10 end
    if base + its % 10 ~= its then own[i] = base + its % 10 end
    if taken[base] ~= who then list[#list + 1], list[#list + 2] = text(base), Attempts.entry_of(base, since, topic, holder) end
    taken[base] = who
  end
end
for i, member in ipairs(mine) do
  if own[i] then
    leases[2 * i - 1] = own[i]
    reply[#reply + 1] = position[member]
    reply[#reply + 1] = own[i]
  end
end
Attempts.note_holders(list)
put_extended()
return reply
