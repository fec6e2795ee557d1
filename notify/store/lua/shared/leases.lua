-- Leases: a receipt is the end of a lease in us, and stands in LEASED. Its last digit is that of the attempts used up and of how
-- often messages of the topic were given back or requeued: so no two leases in a row of a message have the same, however they end.

local function receipt_of(deadline, digit)
  return deadline - deadline % 10 + digit
end

-- The last digit of a count, 0 where that is missing or foreign.
local function digit_of(n)
  return n and string.match(n, '^%d-(%d)$') or 0
end

-- Has the receipts of the next leases of a topic differ from those before: for who gives back or requeues, before it does.
local function turn_receipts(topic)
  count(topic, 'released', 1)
end

-- Leases a list, pairs of receipt and member, or gives leases that there are another end.
local function put_leased(list)
  call('ZADD', LEASED, unpack(list))
end

-- Takes members out of their leases, and returns how many were in one: the caller counts them, when all else is done.
local function take_leased(members)
  return call('ZREM', LEASED, unpack(members))
end

-- Which of members are leased under their receipts: the members, and the positions of the others.
local function held_under(members, receipts)
  local deadlines = call('ZMSCORE', LEASED, unpack(members))
  local mine, lost = {}, {}
  for i, deadline in ipairs(deadlines) do
    if deadline == receipts[i] then
      mine[#mine + 1] = members[i]
    else
      lost[#lost + 1] = i
    end
  end
  return mine, lost
end

-- How many attempts a count says are used up; nil where it is foreign.
local function used_in(n)
  n = tonumber(n or 0)
  if n and n >= 0 and n < math.huge then return n end
end

-- Uses up an attempt and returns how many are; a count that is foreign is as good as none left.
local function use_up(member)
  return try('HINCRBY', ATTEMPTS, member, 1) or math.huge
end

-- Where a message expires while it is leased, the carrier puts its expiry off to the ms in which the lease has ended, less half
-- a millisecond: no other expiry has that, so it can be told whatever becomes of the lease.
local function put_off(receipt)
  return math.ceil(receipt / 1000) - 0.5
end

-- Whether a message has expired that is not leased.
local function has_expired(expiry, now)
  return expiry and (tonumber(expiry) <= now or expiry % 1 > 0)
end

-- Sees to the expiry of a message whose lease is given up: one that was put off is over now.
local function no_longer_leased(member, now)
  local expiry = try('ZSCORE', EXPIRIES, member)
  if has_expired(expiry, now) then try('ZADD', EXPIRIES, now, member) end
end

-- Has a named listener stand in HANDED, by the end of its first lease, as long as it has broadcasts in hand.
local function settle_handed(name)
  local head = call('ZRANGE', held_of(name), 0, 0, 'WITHSCORES')[2]
  if head then try('ZADD', HANDED, head, name) else try('ZREM', HANDED, name) end
end
