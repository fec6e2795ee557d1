-- Leases. A receipt is the end of a lease in us, the score in LEASED. Its last digit is the last digit of the attempts used up plus
-- the number of releases and requeues in the topic: so two leases in a row of a message never have the same, however they end.

function Leases.receipt_of(deadline, digit)
  return deadline - deadline % 10 + digit
end

-- The last digit of a count, or of that on the first line of a value of ATTEMPTS; 0 if it is missing or foreign.
function Leases.digit_of(n)
  return n and (string.match(n, '^%d-(%d)$') or string.match(n, '^%d-(%d)\n')) or 0
end

-- Makes the receipts of a topic's next leases differ from those before. Call it before a release or a requeue.
function Leases.turn_receipts(topic)
  Counters.count(topic, 'released', 1)
end

-- Leases a list, pairs of receipt and member, or changes the end of existing leases.
function Leases.put_leased(list)
  call('ZADD', LEASED, unpack(list))
end

-- Fails if a message that is taken out of its place could not be put back, for a right that is missing. Call it before, where the
-- end of the message may fail. It changes nothing.
function Leases.can_put_back()
  call('ZADD', LEASED, 'XX', 'GT', 0, '')
end

-- Takes members out of their leases, and returns how many had one: the caller counts them, when all else is done.
function Leases.take_leased(members)
  local taken = call('ZREM', LEASED, unpack(members))
  if current.notes then call('DEL', unpack(current.notes)) end
  return taken
end

-- Whether a hand-over was spared when its lease ended, as each is once: Redis may have stood still, and the confirmation be on its way. Its
-- receipt has an odd number of tens then.
function Leases.is_spared(lease)
  return math.floor(lease / 10) % 2 == 1
end

-- When a hand-over that is not confirmed was made, in us, or some multiple of SPARE later.
function Leases.handed_at(lease)
  return math.floor(lease) - UNCONFIRMED - (Leases.is_spared(lease) and SPARE + 10 or 0)
end

-- Spares a hand-over whose lease ended.
function Leases.spare(member, lease, us)
  Leases.put_leased({ lease + 10 + math.max(math.ceil((us - lease) / SPARE + 0.5), 1) * SPARE, member })
end

-- Whether the lease of a member, the score in LEASED, belongs to a receipt: its own, the one that is noted beside it as that of its claim,
-- see note_extended, or, of a hand-over that is not confirmed, the one that it was made with, or that its confirmation gives it. That
-- counts from the hand-over on, for a multiple of SPARE, so it differs by that alone; so does one in 10,000 of the receipts of the message's
-- earlier leases, if its last digit is the same.
function Leases.is_under(member, lease, receipt)
  if not lease then return false end
  if is_same(lease, receipt) then return true end
  if lease % 1 > 0 then return (math.floor(receipt) - math.floor(lease) + (Leases.is_spared(lease) and 10 or 0)) % SPARE == 0 end
  local note = extended_of(member)
  if try('GET', note) ~= receipt .. ' ' .. text(lease) then return false end
  table.insert(table_in(current, 'notes'), note)
  return true
end

-- Notes the receipt of a member's claim, by which its lease stays known, and the one that an extension gives it. The note proves nothing
-- once the lease is another, so one that is left does no harm. It outlives the lease by some ms, since that ends only when the carrier
-- takes the message back. Both end at times by Redis's clock: if that is set back both end later.
function Leases.note_extended(member, claimed, receipt, us, longer)
  if claimed == text(receipt) then return end
  call('SET', extended_of(member), claimed .. ' ' .. text(receipt), 'PX', text(math.max(math.ceil((receipt - us) / 1000) + longer, 1)))
end

-- The members that are leased under their receipts, which become those that the leases have now, and the positions of the others. What
-- was claimed together has one receipt: where there are few of these, it reads what is leased under each, which takes half as long as
-- reading the receipt of each member.
function Leases.leased_under(members, receipts)
  local wanted, distinct, held, mine, lost = {}, 0, {}, {}, {}
  for _, receipt in ipairs(receipts) do
    if not wanted[receipt] then distinct = distinct + 1 end
    wanted[receipt] = (wanted[receipt] or 0) + 1
  end
  local in_few = distinct * 8 <= #members
  for receipt, n in pairs(wanted) do
    in_few = in_few and call('ZCOUNT', LEASED, receipt, receipt) <= 2 * n
    for _, member in ipairs(in_few and call('ZRANGE', LEASED, receipt, receipt, 'BYSCORE') or {}) do held[member] = receipt end
  end
  for i, receipt in ipairs(in_few and {} or call('ZMSCORE', LEASED, unpack(members))) do held[members[i]] = receipt end
  for i, member in ipairs(members) do
    local lease = held[member] or in_few and call('ZSCORE', LEASED, member)
    if Leases.is_under(member, lease, receipts[i]) then
      mine[#mine + 1] = member
      receipts[i] = lease
    else
      lost[#lost + 1] = i
    end
  end
  return mine, lost
end

-- The position of each member whose lease is not among the lost ones: it may be named again, with the receipt of an earlier lease.
function Leases.positions_of(members, lost)
  local is_lost, position = {}, {}
  for _, i in ipairs(lost) do is_lost[i] = true end
  for i, member in ipairs(members) do
    if not is_lost[i] then position[member] = i end
  end
  return position
end

-- The attempts that a value of ATTEMPTS says are used up; nil if it is foreign.
function Leases.used_in(value)
  local n = tonumber(value or 0) or tonumber(string.match(value, '^(%d+)\n') or nil)
  if n and n >= 0 and n < math.huge then return n end
end

-- Makes all attempts of members be left. What is known of those that failed stays.
function Leases.renew_attempts(members)
  local kept, gone = {}, {}
  for i, value in ipairs(try('HMGET', ATTEMPTS, unpack(members)) or {}) do
    local lines = value and string.match(value, '^%d+(\n.*)$')
    if lines then kept[#kept + 1], kept[#kept + 2] = members[i], '0' .. lines elseif value then gone[#gone + 1] = members[i] end
  end
  if #kept > 0 then call('HSET', ATTEMPTS, unpack(kept)) end
  if #gone > 0 then call('HDEL', ATTEMPTS, unpack(gone)) end
end

-- If a message expires while it is leased, the carrier postpones its expiry to the ms in which the lease has ended, less half a
-- millisecond: no other expiry has that fraction, so it is recognized whatever becomes of the lease.
function Leases.put_off(receipt)
  return math.ceil(receipt / 1000) - 0.5
end

-- Whether a message that is not leased has expired.
function Leases.has_expired(expiry, now)
  return expiry and (tonumber(expiry) <= now or expiry % 1 > 0)
end

-- Corrects the expiry of a message whose lease ends early: a postponed one is over now.
function Leases.no_longer_leased(member, now)
  local expiry = try('ZSCORE', EXPIRIES, member)
  if Leases.has_expired(expiry, now) then try('ZADD', EXPIRIES, now, member) end
end

-- Notes which worker, if it tells its name, has broadcasts of a named listener until a time in ms, which is so many ms from now. All is
-- forgotten when the last of these leases ends. Where a lease ends at another time than noted, another process has the broadcast.
function Leases.note_owner(name, members, worker, deadline, lease)
  if worker == '' or #members == 0 then return end
  local owners, note, list = owners_of(name), text(deadline) .. ' ' .. worker, {}
  for _, member in ipairs(members) do list[#list + 1], list[#list + 2] = member, note end
  if try('HSET', owners, unpack(list)) and call('PTTL', owners) < lease then call('PEXPIRE', owners, text(lease)) end
end

-- Sets the alarm of a named listener to the end of its first lease, or takes it out if it has no leased broadcasts. Of what is leased no more
-- its processes were told, or will be by the alarm that stands: they are told again after a second, as by that alarm, and not at once, since
-- those that are there may have no hands free.
function Leases.set_alarm(name, now)
  local head = tonumber(call('ZRANGE', held_of(name), 0, 0, 'WITHSCORES')[2] or nil)
  if not head then
    try('ZREM', ALARMS, name)
  elseif head > now then
    try('ZADD', ALARMS, text(head), name)
  else
    try('ZADD', ALARMS, 'LT', text(now + 1000), name)
  end
end
