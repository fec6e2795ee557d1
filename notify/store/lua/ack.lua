-- Acknowledges messages of a topic, which removes them.
-- ARGV: topic; then a receipt, the number of members that have it, and these; more such runs.
-- Reply: the positions, from 1, of those whose lease is lost.
local topic = ARGV[1]

-- Most calls acknowledge one message, and few messages have a time to live or used up an attempt.
if #ARGV == 4 and call('EXISTS', ATTEMPTS, EXPIRIES) == 0 and call('ZSCORE', LEASED, ARGV[4]) == ARGV[2] then
  local receipt, member = ARGV[2], ARGV[4]
  call('ZREM', LEASED, member)
  local gone = redis.pcall('HDEL', MESSAGES, member)
  if type(gone) == 'table' then
    call('ZADD', LEASED, receipt, member)
    error(gone.err, 0)
  end
  if try('HINCRBY', TOPICS, topic .. ':leased', -1) == 0 then call('HDEL', TOPICS, topic .. ':leased') end
  if try('HINCRBY', TOPICS, topic .. ':acked', 1) == 1 then remember(topic) end
  try('HINCRBY', TOPICS, '*:acked', 1)
  return {}
end

-- * * *

local members, receipts, at = {}, {}, 2
while at < #ARGV do
  for i = at + 2, at + 1 + ARGV[at + 1] do
    members[#members + 1] = ARGV[i]
    receipts[#members] = ARGV[at]
  end
  at = at + 2 + ARGV[at + 1]
end
local mine, lost = leased_under(members, receipts)

-- Restores the leases as they were.
local function lease_again()
  local receipt_of_member, leases = {}, {}
  for i, member in ipairs(members) do receipt_of_member[member] = receipts[i] end
  for _, member in ipairs(mine) do
    leases[#leases + 1] = receipt_of_member[member]
    leases[#leases + 1] = member
  end
  put_leased(leases)
end

if #mine > 0 then
  local acked = take_leased(mine) -- one that is named twice counts once
  or_undo(lease_again, forget, mine)
  count(topic, 'leased', -acked)
  count(topic, 'acked', acked)
  count_all('acked', acked)
end
return lost
