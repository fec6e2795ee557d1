-- Limits of a topic, by its own settings: how many of its messages are leased at once, and how many are claimed in a time. A topic without
-- them has none of what is kept for them.
--
-- slots_of has the members that are leased, of a topic with a concurrency: names, not a number, so that a slot of nobody is found. A lease has
-- its slot before it begins, and gives it back when all else in a call is done: so what fails in between leaves one too few, not one too many.
-- The score is when the lease ends; past that, what needs a slot looks whether the member is leased, and until when.
--
-- A rate is a bucket of tokens, kept as the time at which it is full but for its burst: the generic cell rate algorithm (ITU-T I.371).

local PAST = 100 -- slots past their time that are looked at in one call
local MOST_LEASES = 20000 -- leases of a shard that are looked at when a topic gets a concurrency: those that end first
local EACH = 2000 -- written together
local AGAIN = 10000 -- us: how much of a rate is waited for once nothing is left of it

-- Whether the leases of a topic have slots, by its settings.
function Limits.has_slots(own)
  return own and Settings.get('concurrency', own) > 0
end

-- Whether a topic has a limit, or branches, of which only the carrier claims.
function Limits.are_in(own)
  return Limits.has_slots(own) or own and (Settings.get('rate', own) > 0 or Settings.branches_in(own))
end

-- Gives back the slots past their time whose messages are not leased.
local function mend(topic, us)
  local members = try('ZRANGE', slots_of(topic), '-inf', text(us), 'BYSCORE', 'LIMIT', 0, PAST) or {}
  for i, lease in ipairs(members[1] and try('ZMSCORE', LEASED, unpack(members)) or {}) do
    if lease then call('ZADD', slots_of(topic), lease, members[i]) else call('ZREM', slots_of(topic), members[i]) end
  end
end

local function free_slots(topic, most, us)
  mend(topic, us)
  return math.max(most - (try('ZCARD', slots_of(topic)) or 0), 0)
end

-- The rate of a topic: the time of one message in us, the burst, and until when it is used up; nil if it has none. A time that is further off
-- than a whole burst becomes that: the clock was set back, or the rate or the burst is another.
local function rate_of(topic, own, us)
  local an_hour = Settings.get('rate', own)
  if an_hour == 0 then return nil end
  local r = { each = 3600000000 / an_hour, burst = Settings.get('burst', own) }
  if r.burst == 0 then r.burst = math.max(math.floor(BURST / r.each), 1) end
  local spent, last = tonumber(try('HGET', TOPICS, topic .. ':spent') or nil) or us, us + r.burst * r.each
  r.spent = math.min(math.max(spent, us), last)
  if spent > last then try('HSET', TOPICS, topic .. ':spent', string.format('%.2f', last)) end
  return r
end

-- How many messages of a topic may be claimed now by its limits: math.huge if it has none, and 0 if it has branches. And its rate, if it has one, with binds if that
-- allows the fewest.
function Limits.room(topic, own, us)
  if not own then return math.huge end
  if Settings.branches_in(own) then return 0 end
  local most, n = Settings.get('concurrency', own), math.huge
  if most > 0 then n = free_slots(topic, most, us) end
  local rate = rate_of(topic, own, us)
  if not rate then return n end
  local tokens = math.max(math.floor(rate.burst - (rate.spent - us) / rate.each), 0)
  rate.binds = tokens < n
  return math.min(tokens, n), rate
end

-- Uses up a rate by n messages. Returns until when it is used up then, as it is kept.
function Limits.spend(rate, n)
  rate.spent = rate.spent + n * rate.each
  return string.format('%.2f', rate.spent)
end

-- When a rate allows some messages beside so many that it allows now, in ms.
function Limits.again(rate, now)
  local some = math.min(rate.burst, math.max(AGAIN / rate.each, 1))
  return math.ceil((rate.spent + (now + some - rate.burst) * rate.each) / 1000)
end

-- Takes slots for leases of a topic, pairs of receipt and member.
function Limits.take(topic, leases)
  for from = 1, #leases, 2 * EACH do
    try('ZADD', slots_of(topic), unpack(leases, from, math.min(from + 2 * EACH - 1, #leases)))
  end
end

-- Notes that leases of a topic end. Own are its settings, nil if the caller does not know them.
function Limits.leave(topic, members, own)
  if own == false or call('EXISTS', slots_of(topic)) == 0 then return end
  local left = table_in(table_in(current, 'left'), topic)
  for _, member in ipairs(members) do left[#left + 1] = member end
end

-- Holds a ring for a topic of which leases ended in this call: settle rings, when slots are free. Returns whether it does.
function Limits.hold_ring(topic, n)
  if not (current.left and current.left[topic]) then return false end
  local rings = table_in(current, 'rings')
  rings[topic] = (rings[topic] or 0) + n
  return true
end

-- For how many messages of each topic a ring was held. From now on none is.
function Limits.held_rings()
  local rings = current.rings or {}
  current.left, current.rings = nil, nil
  return rings
end

-- Gives back the slots of leases that ended in this call. Returns of each topic how many, and how many were free before.
function Limits.give_back()
  local freed = {}
  for topic, left in pairs(current.left) do
    local n = try('ZREM', slots_of(topic), unpack(left)) or 0
    local most, taken = Settings.get('concurrency', (Settings.settings_of(topic))), try('ZCARD', slots_of(topic)) or 0
    freed[topic] = { n = n, before = math.max(most - taken - n, 0) }
  end
  return freed
end

-- Gives slots to what is leased of a topic that has a concurrency now and had none before; or forgets them if it has none now.
function Limits.count_leases(topic, had, has)
  if not has then return call('DEL', slots_of(topic)) end
  if had then return end
  local all, leases = call('ZRANGE', LEASED, 0, MOST_LEASES - 1, 'WITHSCORES'), {}
  for i = 1, #all, 2 do
    if topic_of(all[i]) == topic then leases[#leases + 1], leases[#leases + 2] = all[i + 1], all[i] end
  end
  Limits.take(topic, leases)
end
