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
if not is_under(member, lease, receipt) then return { '' } end
local own, common = settings_of(topic)
local before = try('HGET', ATTEMPTS, member)
local used = used_in(before) or math.huge
local forgetful
local options = options_of(call('HGET', MESSAGES, member))
local limit = options.attempts or setting('attempts', own, common)

-- When the message is due again. A random wait is less than a bound, which doubles with each attempt: exponential backoff with full
-- jitter (M. Brooker, AWS Architecture Blog, 2015). The caller draws the number, since Redis draws the same numbers in each script.
local function due_again()
  local wait = tonumber(delay)
  if not wait then
    local least, most = setting('backoff_min', own, common), setting('backoff_max', own, common)
    wait = math.floor(math.min(least * 2 ^ used, math.max(least, most)) * share / 1e6)
  end
  return math.ceil(us / 1000) + wait
end

if how == '' and used + 1 < limit then
  local due = due_again()
  if not put_scheduled(topic, { due, member }, due) then return foreign_schedule(topic) end
  no_longer_leased(member, now)
  used, forgetful = use_up(member, before, lease, worker, now, reason, setting('history', own, common), now)
  take_leased({ member })
  count(topic, 'leased', -1)
  return { 'scheduled', used, due, forgetful }
end

-- * * *

if how == 'keep' then
  local MOST_OFTEN = 1000 -- times that a message without a time to live is put off
  local snoozed = extra(try('HGET', EXTRAS, member), 'snoozed') or 0
  local due, expiry = due_again(), tonumber(try('ZSCORE', EXPIRIES, member) or nil)
  if has_expired(expiry, now) then return { 'expires', 0 } end
  if expiry and due >= expiry then return { 'expires', expiry } end
  if not expiry and snoozed >= MOST_OFTEN then return { 'often', snoozed } end
  turn_receipts(topic)
  if not put_scheduled(topic, { due, member }, due) then return foreign_schedule(topic) end
  put_extra(member, 'snoozed', snoozed + 1)
  take_leased({ member })
  count(topic, 'leased', -1)
  return { 'scheduled', used < math.huge and used or 0, due, 0 }
end

can_put_back()
used, forgetful = use_up(member, before, lease, worker, now, reason, setting('history', own, common), now) -- first, so that what reads of its end finds it
used = used < math.huge and used or 0
local left = { member }
local function lease_again()
  if not left[1] then return end
  put_leased({ lease, member })
  forget_ends(left)
  put_attempts(member, before)
end
if how ~= 'bury' and options.fail == 'drop' then
  take_leased(left)
  or_undo(lease_again, end_messages, left, 'dropped', reason, { used = used })
  count(topic, 'leased', -1)
  count_dropped(topic, 1)
  return { 'dropped', used, now, forgetful }
end
local function stay_leased()
  unbury(topic, member)
  put_attempts(member, before)
end
local buried = or_undo(stay_leased, function()
  if not bury(topic, member, reason, used, now) then return false end
  take_leased({ member })
  return true
end)
if not buried then
  put_attempts(member, before)
  return foreign_dead(topic)
end
left = HEIRS
or_undo(lease_again, publish_heirs, us, now)
count(topic, 'leased', -1)
return { 'dead', used, now, forgetful }
