-- Shows a group of a topic.
-- ARGV: topic, name, the most members of each kind.
-- Reply: nothing if there is none of that name. Else what Callbacks.describe returns, and of members that live, and then of dead ones, id, state,
--   '' if it is in no place; of a leased one the worker that has it, '' if that is unknown, and since when in ms, else 0; of a dead one the reason.
local topic, name, most = ARGV[1], ARGV[2], tonumber(ARGV[3])
local g = Groups.read(topic, (Groups.find(topic, name)))
if not g then return {} end
local all, n = {}, text(g.n)
for _, ids in ipairs({
  try('ZRANGE', grouped_of(topic), n, n, 'BYSCORE', 'LIMIT', 0, most) or {},
  try('ZRANGE', grouped_of(topic), '(' .. n, n .. '.5', 'BYSCORE', 'LIMIT', 0, g.go and 0 or most) or {},
}) do
  for _, id in ipairs(ids) do
    local state, time = Describe.place_of(topic, topic .. ':' .. id)
    local worker, since
    if state == 'leased' then worker, since = Attempts.holder_of(topic, time) end
    if state == '' and Seats.blocked_since(topic, topic .. ':' .. id) then state = 'blocked' end
    all[#all + 1] = { id, state, worker or '', since or '0', state == 'dead' and try('HGET', DEATHS, topic .. ':' .. id) or '' }
  end
end
return { Callbacks.describe(topic, g), unpack(all) }
