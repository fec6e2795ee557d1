-- Acknowledges messages of a topic, which removes them: their ids are free, or stay taken, or their successors are published.
-- ARGV: topic; then a receipt, the number of members that have it, and these; more such runs.
-- Reply: the positions, from 1, of those whose lease is lost.
local topic = ARGV[1]

-- Most calls acknowledge one message, and few messages have a time to live, a key, a group or a limit, used up an attempt or have more noted.
local keyed, grouped, slots = keys_of(topic), grouped_of(topic), slots_of(topic)
local kept = call('EXISTS', ATTEMPTS, EXPIRIES, slots, EXTRAS, EXTRAS, keyed, keyed, grouped, grouped) -- the last three count as two each
if #ARGV == 4 and kept == 0 and is_same(call('ZSCORE', LEASED, ARGV[4]), ARGV[2]) then
  local receipt, member, safe = ARGV[2], ARGV[4], redis.pcall
  call('ZREM', LEASED, member)
  local gone = safe('HDEL', MESSAGES, member)
  if type(gone) == 'table' then
    call('ZADD', LEASED, receipt, member)
    error(gone.err, 0)
  end
  if safe('HINCRBY', TOPICS, topic .. ':leased', -1) == 0 then call('HDEL', TOPICS, topic .. ':leased') end
  if safe('HINCRBY', TOPICS, topic .. ':acked', 1) == 1 then Counters.remember(topic) end
  if type(safe('HINCRBY', TOPICS, '*:acked', 1)) == 'table' then try('HINCRBY', TOPICS, '*:acked', 1) end -- fails, unless it is foreign
  return {}
end

local members, receipts, at = {}, {}, 2
while at < #ARGV do
  for i = at + 2, at + 1 + ARGV[at + 1] do
    members[#members + 1] = ARGV[i]
    receipts[#members] = ARGV[at]
  end
  at = at + 2 + ARGV[at + 1]
end
local mine, lost = Leases.leased_under(members, receipts)

-- Restores the leases of those that did not end.
local function lease_again()
  local position, leases = Leases.positions_of(members, lost), {}
  for _, member in ipairs(mine) do
    leases[#leases + 1] = receipts[position[member]]
    leases[#leases + 1] = member
  end
  if #leases > 0 then Leases.put_leased(leases) end
end

if #mine > 0 then
  local ends = kept >= 2 -- else there is nothing to do but to forget them
  if ends then Leases.can_put_back() end
  if kept > 0 then Limits.leave(topic, mine) end
  local acked = Leases.take_leased(mine) -- one that is named twice counts once
  or_undo(lease_again, ends and Endings.end_messages or Messages.forget, mine, ends and 'acked' or kept)
  Counters.count(topic, 'leased', -acked)
  Counters.count(topic, 'acked', acked)
  Counters.count_all('acked', acked)
end
return lost
