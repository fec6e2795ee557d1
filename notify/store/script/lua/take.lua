-- Hands out broadcasts to a process of a named listener: first those whose lease ended, then those behind its places in the
-- logs of topics. Before that it acknowledges broadcasts that were handled, and releases others.
-- ARGV: name; its registration; the name of the worker, or ''; lease in ms; how many at the most; number of those acknowledged; of those
--   released; then these, the receipts of those released, how many attempts of each failed, and the topics.
-- Reply: if the registration is gone, and nothing is handed out, the mark of the store, and 1 if the name has another one by now, or 0. Else
--   the end of the lease in ms; of each one handed out: topic, attempt and entry; of each gap, which is leased, too: topic, attempt, and the positions after which and up to which it is, in us; the
--   topics whose logs may hold more.
-- If it released any, it tells the other processes of the listener.
local name, registration, worker, lease, left, n_acked, n_back = unpack(ARGV, 1, 7)
lease, left, n_acked, n_back = tonumber(lease), tonumber(left), tonumber(n_acked), tonumber(n_back)
local registered = call('HGET', LISTENERS, name)
local start, floor = string.match(registration, ' (%d+) (%d+) %S+$')
local _, now = clock()
local deadline = now + lease
local c = {
  held = held_of(name), tries = tries_of(name), owners = owners_of(name), places = places_of(name),
  start = start, floor = floor, now = now, deadline = deadline, left = left, bytes = BYTES,
  out = {}, gaps = {}, more = {}, holds = {}, handed = {}, reached = {},
}
local first = 8 + n_acked
if registered then
  Take.ack(c, column(8, n_acked))
  if Take.release(c, column(first, n_back), column(first + n_back, n_back), column(first + 2 * n_back, n_back)) then tell(name_of(name), '') end
end
if registered ~= registration then return { STORE, registered and 1 or 0 } end
first = first + 3 * n_back
Take.ended(c)
for _, topic in ipairs(column(first, #ARGV - first + 1)) do Take.new(c, topic) end

-- Places move last: if the script stops before, the next one hands out what has no lease.
if #c.holds > 0 then call('ZADD', c.held, unpack(c.holds)) end
if #c.reached > 0 then call('HSET', c.places, unpack(c.reached)) end
Leases.set_alarm(name, now)
Leases.note_owner(name, c.handed, worker, deadline, lease)
return { deadline, c.out, c.gaps, c.more }
