-- Extends the leases of broadcasts of a process of a named listener.
-- ARGV: name; the name of the worker, or ''; lease in ms from now; then the members, then as many receipts of theirs.
-- Reply: the new end of the leases in ms, then the positions, from 1, of those whose lease is lost.
local name, worker, lease = ARGV[1], ARGV[2], tonumber(ARGV[3])
local n = (#ARGV - 3) / 2
local members, receipts = column(4, n), column(4 + n, n)
local _, now = clock()
local held = held_of(name)
local deadline = now + lease
local mine, lost = {}, {}
for i, member in ipairs(members) do
  if is_same(call('ZSCORE', held, member), receipts[i]) then
    call('ZADD', held, deadline, member)
    mine[#mine + 1] = member
  else
    lost[#lost + 1] = i
  end
end
Leases.set_alarm(name, now)
Leases.note_owner(name, mine, worker, deadline, lease)
return { deadline, unpack(lost) }
