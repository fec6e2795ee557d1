-- Rings for subscribers, and nudges for the carrier.

Rings.RUNG = 3e15 -- added to the time since which an inbox waits: us of some 95 years, more than any time until 2065
Rings.HANDOVER = 6e15 -- added to the time of the last hand-over to it, until its subscriber claims

-- Rings up to n of the subscribers that wait for a topic, longest first, and
-- wakes programs of any language. An inbox that was rung moves behind all that
-- were not, until its subscriber claims, which gives it a new place: so a lost
-- ring can be repeated, and a subscriber that hangs keeps no message from the
-- others. An inbox that nobody is subscribed to is dropped. While the topic is
-- paused ring does nothing: the resume rings. It never fails: a foreign key, or
-- a PUBLISH that is refused, counts as a lost ring. Call it last, since a
-- subscriber that is rung claims at once. Nobody is set if no inbox waits.
function Rings.ring(topic, n, us, nobody)
  if Settings.paused(topic) then return end
  if SHARDED then tell_heard(WAKES, topic .. ' ' .. n) else tell(wake_of(topic), n) end
  if nobody then return end
  local waiting, left, rung = waiting_of(topic), math.min(n, 500), {}
  for _ = 1, 8 do
    local dropped = false
    for _, inbox in ipairs(try('ZRANGE', waiting, 0, left - 1) or {}) do
      if rung[inbox] then return end -- there are no others
      if tell(inbox, topic) == 0 then
        call('ZREM', waiting, inbox)
        dropped = true
      else
        call('ZADD', waiting, 'GT', text(us + Rings.RUNG), inbox) -- after a hand-over it stays behind
        rung[inbox] = true
        left = left - 1
      end
    end
    if left == 0 or not dropped then return end
  end
end

-- Nudges the carrier if a due time is before the head of a place, which is the first due time there.
function Rings.nudge(due, head)
  if not head or due < tonumber(head) then tell(HEAD, text(due)) end
end
