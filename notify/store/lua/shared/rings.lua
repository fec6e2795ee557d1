-- Who is told that something is to be done.

local RUNG = 1e15 -- added to the time since which an inbox waits: us of some 30 years

-- Wakes up to n of the subscribers that wait for a topic, the longest waiting
-- first, and tells programs of other languages. Who was rung stands behind all
-- that were not, until it claims, which gives it a new place: a ring that got
-- lost can be repeated, and one that hangs keeps no message from the others. An
-- inbox that nobody listens on is dropped. While the topic is paused nobody is
-- told: who resumes it rings. It never fails: what is foreign, or a PUBLISH that
-- is refused, counts as a lost ring. It comes last: who is rung claims at once.
local function ring(topic, n, us)
  if paused(topic) then return end
  tell(wake_of(topic), n)
  local waiting, left, rung = waiting_of(topic), math.min(n, 500), {}
  for _ = 1, 8 do
    local dropped = false
    for _, inbox in ipairs(try('ZRANGE', waiting, 0, left - 1) or {}) do
      if rung[inbox] then return end -- there are no others
      if tell(inbox, topic) == 0 then
        call('ZREM', waiting, inbox)
        dropped = true
      else
        call('ZADD', waiting, text(us + RUNG), inbox)
        rung[inbox] = true
        left = left - 1
      end
    end
    if left == 0 or not dropped then return end
  end
end

-- Tells the carrier when something came to be due before all else that waits in a place: its head is the due time there.
local function nudge(due, head)
  if not head or due < tonumber(head) then tell(HEAD, text(due)) end
end
