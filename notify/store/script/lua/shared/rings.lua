-- Rings for subscribers, and nudges for the carrier.

Rings.RUNG = 3e15 -- added to the time since which an inbox waits: us of some 95 years, more than any time until 2065
Rings.HANDOVER = 6e15 -- added to the time of the last hand-over to it, until its subscriber claims
local DEAD = 500 -- inboxes that a call drops at about the most
local OF_TOPIC = '/' -- before a topic in ALARMS: no listener has that in its name
local OF_BRANCHES = '@' -- the same of one that has branches

-- Nudges the carrier if a due time is before the head of a place, which is the first due time there.
function Rings.nudge(due, head)
  if not head or due < tonumber(head) then tell(NUDGE, text(due)) end
end

-- Has the carrier look at an entry of ALARMS at a time in ms, or earlier, if it is to do that already.
function Rings.look_at(entry, at)
  local first = try('ZRANGE', ALARMS, 0, 0, 'WITHSCORES')
  if not first then return end
  call('ZADD', ALARMS, 'LT', text(at), entry)
  Rings.nudge(at, first[2])
end

-- Has the carrier ring for a topic once its rate allows some messages again, beside so many that it allows now.
function Rings.wait_for_rate(topic, rate, now)
  Rings.look_at(OF_TOPIC .. topic, Limits.again(rate, now))
end

-- The topic of an entry in ALARMS for which the carrier is to ring; nil if it is a named listener.
function Rings.throttled_in(entry)
  return string.sub(entry, 1, 1) == OF_TOPIC and string.sub(entry, 2) or nil
end

-- Has the carrier ring no more for a topic's rate.
function Rings.forget_rate(topic)
  try('ZREM', ALARMS, OF_TOPIC .. topic)
end

-- Has the carrier copy what is ready of a topic into its branches: in the same call, if that is one of its own.
function Rings.have_copied(topic, us)
  local now = math.floor(us / 1000)
  if not current.carries then return Rings.look_at(OF_BRANCHES .. topic, now) end
  current.copying = try('ZADD', ALARMS, 'LT', text(now), OF_BRANCHES .. topic) ~= nil
end

-- The topic of an entry in ALARMS that is copied into its branches; nil if it is another entry.
function Rings.copied_in(entry)
  return string.sub(entry, 1, 1) == OF_BRANCHES and string.sub(entry, 2) or nil
end

-- For how many of n ready messages of a topic subscribers may be rung now: none while it is paused, or if it has branches,
-- into which the carrier copies them then, and no more than its limits let go. If
-- its rate is why, and more of them wait than that, the carrier rings for the others.
function Rings.most(topic, n, us)
  local own = try('HGET', TOPICS, topic .. ':settings')
  if not own then return n end
  if Settings.get('paused', own) == 1 then return 0 end
  if Settings.branches_in(own) then
    Rings.have_copied(topic, us)
    return 0
  end
  local room, rate = Limits.room(topic, own, us)
  if n <= room then return n end
  if rate and rate.binds and (try('ZCOUNT', waiting_of(topic), '-inf', text(Rings.RUNG)) or 0) > room then
    Rings.wait_for_rate(topic, rate, room)
  end
  return room
end

-- Rings up to n of the subscribers that wait for a topic, longest first, and
-- wakes programs of any language. An inbox that was rung moves behind all that
-- were not, until its subscriber claims, which gives it a new place: so a lost
-- ring can be repeated, and a subscriber that hangs keeps no message from the
-- others. An inbox that nobody is subscribed to is dropped, and many are at once: those of
-- processes that were killed may stand before one that lives. Where a call may drop no more
-- of them, the carrier goes on. While the topic is paused, or
-- at a limit, ring does nothing: what ends that rings. It never fails: a foreign key, or a
-- PUBLISH that is refused, counts as a lost ring. Call it last, since a subscriber that is
-- rung claims at once. Nobody is set if no inbox waits.
function Rings.ring(topic, n, us, nobody)
  if Limits.hold_ring(topic, n) then return end
  n = Rings.most(topic, n, us)
  if n == 0 then return end
  if SHARDED then tell_heard(WAKES, topic .. ' ' .. n) else tell(wake_of(topic), n) end
  if nobody then return end
  local waiting, left, rung = waiting_of(topic), math.min(n, 500), {}
  local page = left
  while true do
    local dead = {}
    for _, inbox in ipairs(try('ZRANGE', waiting, 0, page - 1) or {}) do
      if rung[inbox] then left = 0 end -- there are no others
      if left == 0 then break end
      if tell(inbox, topic) == 0 then
        dead[#dead + 1] = inbox
      else
        call('ZADD', waiting, 'GT', text(us + Rings.RUNG), inbox) -- after a hand-over it stays behind
        rung[inbox] = true
        left = left - 1
      end
    end
    if #dead == 0 then return end
    call('ZREM', waiting, unpack(dead))
    if left == 0 then return end
    current.dead = (current.dead or 0) + #dead
    if current.dead >= DEAD then return Rings.look_at(OF_TOPIC .. topic, math.floor(us / 1000)) end
    page = math.max(left, DEAD - current.dead)
  end
end
