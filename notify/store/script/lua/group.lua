-- Shows a group of a topic.
-- ARGV: topic, name, the most members of each kind.
-- Reply: nothing if there is none of that name. Else what Callbacks.describe returns, and of members that live, and then of dead ones, topic, which
--   may be a branch, id, state, '' if it is in no place; of a leased one the worker that has it, '' if that is unknown, and since when in ms, else 0;
--   of a dead one the reason.
local topic, name, most = ARGV[1], ARGV[2], tonumber(ARGV[3])
local g = Groups.read(topic, (Groups.find(topic, name)))
if not g then return {} end
local all, n = {}, text(g.n)
for _, entries in ipairs({
  try('ZRANGE', grouped_of(topic), n, n, 'BYSCORE', 'LIMIT', 0, most) or {},
  try('ZRANGE', grouped_of(topic), '(' .. n, n .. '.5', 'BYSCORE', 'LIMIT', 0, g.go and 0 or most) or {},
}) do
  for _, entry in ipairs(entries) do
    local member = Groups.member_of(topic, entry)
    local own, id = string.match(member, '^([^:]*):(.*)$')
    local state, time = Describe.place_of(own, member)
    local worker, since
    if state == 'leased' then worker, since = Attempts.holder_of(own, time) end
    if state == '' and Seats.blocked_since(own, member) then state = 'blocked' end
    all[#all + 1] = { own, id, state, worker or '', since or '0', state == 'dead' and try('HGET', DEATHS, member) or '' }
  end
end
return { Callbacks.describe(topic, g), unpack(all) }
