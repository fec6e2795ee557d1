-- Rejects a message. It uses up an attempt, and ends the message if that was the last, or buries it if told to. Or puts it off, which
-- uses up none.
-- ARGV: topic; member; receipt; when it is due again, in ms from now, or '' for a random wait by its settings, and how many millionths
--   of the longest wait that is; reason; bury to bury it at once, keep to put it off, or ''; the name
--   of the worker, or ''.
-- Reply: its state now, scheduled, dead or dropped, or '' if the lease is lost; attempts used up; its due time in ms; 1 if memory was
--   short, so that this attempt is not among those that are kept. Where it cannot be put off: expires, and when in ms (0 if it has);
--   or often, and how often it was put off.
local topic, member, receipt, delay, share, reason, how, worker = unpack(ARGV, 1, 8)
local us, now = clock()
local lease = call('ZSCORE', LEASED, member)
if not Leases.is_under(member, lease, receipt) then return { '' } end
local own, common = Settings.settings_of(topic)
local before = try('HGET', ATTEMPTS, member)
local used = Leases.used_in(before) or math.huge
local forgetful
local options = Messages.options_of(call('HGET', MESSAGES, member))
local limit = options.attempts or Settings.get('attempts', own, common)

-- When the message is due again. A random wait is less than a bound, which doubles with each attempt: exponential backoff with full
-- jitter (M. Brooker, AWS Architecture Blog, 2015). The caller draws the number, since Redis draws the same numbers in each script.
local function due_again()
  local wait = tonumber(delay)
  if not wait then
    local least, most = Settings.get('backoff_min', own, common), Settings.get('backoff_max', own, common)
    wait = math.floor(math.min(least * 2 ^ used, math.max(least, most)) * share / 1e6)
  end
  return math.ceil(us / 1000) + wait
end

if how == '' and used + 1 < limit then
  local due = due_again()
  if not Places.put_scheduled(topic, { due, member }, due) then return Places.foreign_scheduled(topic) end
  Leases.no_longer_leased(member, now)
  used, forgetful = Attempts.use_up(member, before, lease, worker, now, reason, Settings.get('history', own, common), now)
  Leases.take_leased({ member })
  Counters.count(topic, 'leased', -1)
  return { 'scheduled', used, due, forgetful }
end

if how == 'keep' then
  local MOST_OFTEN = 1000 -- times that a message without a time to live is put off
  local snoozed = Extras.extra(try('HGET', EXTRAS, member), 'snoozed') or 0
  local due, expiry = due_again(), tonumber(try('ZSCORE', EXPIRIES, member) or nil)
  if Leases.has_expired(expiry, now) then return { 'expires', 0 } end
  if expiry and due >= expiry then return { 'expires', expiry } end
  if not expiry and snoozed >= MOST_OFTEN then return { 'often', snoozed } end
  Leases.turn_receipts(topic)
  if not Places.put_scheduled(topic, { due, member }, due) then return Places.foreign_scheduled(topic) end
  Extras.put_extra(member, 'snoozed', snoozed + 1)
  Leases.take_leased({ member })
  Counters.count(topic, 'leased', -1)
  return { 'scheduled', used < math.huge and used or 0, due, 0 }
end

Leases.can_put_back()
-- First, so that what reads of its end finds it.
used, forgetful = Attempts.use_up(member, before, lease, worker, now, reason, Settings.get('history', own, common), now)
used = used < math.huge and used or 0
local left = { member }
local function lease_again()
  if not left[1] then return end
  Leases.put_leased({ lease, member })
  Ends.forget_ends(left)
  Attempts.put_attempts(member, before)
end
if how ~= 'bury' and options.fail == 'drop' then
  Leases.take_leased(left)
  or_undo(lease_again, Endings.end_messages, left, 'dropped', reason, { used = used })
  Counters.count(topic, 'leased', -1)
  Endings.count_dropped(topic, 1)
  return { 'dropped', used, now, forgetful }
end
local function stay_leased()
  Dead.unbury(topic, member)
  Attempts.put_attempts(member, before)
end
local buried = or_undo(stay_leased, function()
  if not Dead.bury(topic, member, reason, used, now) then return false end
  Leases.take_leased({ member })
  return true
end)
if not buried then
  Attempts.put_attempts(member, before)
  return Dead.foreign_dead(topic)
end
left = current.heirs
or_undo(lease_again, Endings.publish_heirs, us, now)
Counters.count(topic, 'leased', -1)
return { 'dead', used, now, forgetful }
