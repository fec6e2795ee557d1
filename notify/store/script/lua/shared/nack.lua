-- What a rejection does. Each function gets the state c of the rejection, see nack.lua, and returns its reply.
local MOST_OFTEN = 1000 -- times that a message without a time to live is put off

-- When the message is due again. A random wait is less than a bound, which doubles with each attempt: exponential backoff with full
-- jitter (M. Brooker, AWS Architecture Blog, 2015). The caller draws the number, since Redis draws the same numbers in each script.
local function due_again(c)
  local wait = tonumber(c.delay)
  if not wait then
    local least, most = Settings.get('backoff_min', c.own, c.common), Settings.get('backoff_max', c.own, c.common)
    wait = math.floor(math.min(least * 2 ^ c.used, math.max(least, most)) * c.share / 1e6)
  end
  return math.ceil(c.us / 1000) + wait
end

-- Uses up an attempt, or none. Returns how many are used up, and 1 if memory was short.
local function use_up(c, uses)
  local history = Settings.get('history', c.own, c.common)
  local used, forgetful = Attempts.note(uses or 1, c.member, c.before, c.lease, c.worker, c.now, c.reason, history, c.now)
  return used < math.huge and used or 0, forgetful
end

local function no_longer_leased(c)
  Limits.leave(c.topic, { c.member }, c.own)
  Leases.take_leased({ c.member })
  Counters.count(c.topic, 'leased', -1)
end

-- Schedules the message again.
function Nack.retry(c)
  local due = due_again(c)
  if not Places.put_scheduled(c.topic, { due, c.member }, due) then return Places.foreign_scheduled(c.topic) end
  Seats.put_off(c.topic, c.member)
  Leases.no_longer_leased(c.member, c.now)
  local used, forgetful = use_up(c)
  no_longer_leased(c)
  return { 'scheduled', used, due, forgetful }
end

-- Puts the message off: past the end of its time to live not at all, or, if it is to wait, to that end, and then why is kept.
function Nack.put_off(c, waits)
  local member, due, noted = c.member, due_again(c), c.noted
  local snoozed = Extras.extra(noted, 'snoozed') or 0
  local expiry = tonumber(try('ZSCORE', EXPIRIES, member) or nil)
  local over = Leases.has_expired(expiry, c.now)
  local ends = waits and expiry and (over or due >= expiry)
  if ends then
    due = expiry
  elseif over then
    return { 'expires', 0 }
  elseif expiry and due >= expiry then
    return { 'expires', expiry }
  end
  if not expiry and snoozed >= MOST_OFTEN then return { 'often', snoozed } end
  Leases.turn_receipts(c.topic)
  if not Places.put_scheduled(c.topic, { due, member }, due) then return Places.foreign_scheduled(c.topic) end
  Seats.put_off(c.topic, member)
  if ends then use_up(c, 0) end
  Extras.put_extra(member, 'snoozed', snoozed + 1)
  if noted and string.find(noted, ' progress=', 1, true) then Extras.drop_progress({ member }) end
  no_longer_leased(c)
  return { 'scheduled', c.used < math.huge and c.used or 0, due, 0 }
end

-- Leases the message again after its end failed, unless left is empty: it ended.
local function lease_again(c, left)
  if not left[1] then return end
  Leases.put_leased({ c.lease, c.member })
  Ends.forget_ends(left)
  Attempts.put_attempts(c.member, c.before)
end

-- Drops the message. It uses up an attempt first, so that what reads of its end finds it.
function Nack.drop(c)
  Leases.can_put_back()
  local used, forgetful = use_up(c)
  local left = { c.member }
  Limits.leave(c.topic, left, c.own)
  Leases.take_leased(left)
  or_undo(function() lease_again(c, left) end, Endings.end_messages, left, 'dropped', c.reason, { used = used })
  Counters.count(c.topic, 'leased', -1)
  Endings.count_dropped(c.topic, 1)
  return { 'dropped', used, c.now, forgetful }
end

-- Buries the message, and publishes its successor. It uses up an attempt first, as above.
function Nack.bury(c)
  Leases.can_put_back()
  local used, forgetful = use_up(c)
  local function stay_leased()
    Dead.unbury(c.topic, c.member)
    Attempts.put_attempts(c.member, c.before)
  end
  local buried = or_undo(stay_leased, function()
    if not Dead.bury(c.topic, c.member, c.reason, used, c.now) then return false end
    Limits.leave(c.topic, { c.member }, c.own)
    Leases.take_leased({ c.member })
    return true
  end)
  if not buried then
    Attempts.put_attempts(c.member, c.before)
    return Dead.foreign_dead(c.topic)
  end
  or_undo(function() lease_again(c, current.heirs) end, Endings.publish_heirs, c.us, c.now)
  Counters.count(c.topic, 'leased', -1)
  return { 'dead', used, c.now, forgetful }
end
