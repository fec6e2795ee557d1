-- Rejects a message. It uses up an attempt, and buries the message if that was the last, or if told to.
-- ARGV: topic; member; receipt; when it is due again, in ms from now, or '' for a random wait by its settings, and how many millionths
--   of the longest wait that is; reason; 1 to bury it at once.
-- Reply: its state now, or '' if the lease is lost; attempts used up; its due time in ms.
local topic, member, receipt, delay, share, reason, at_once = unpack(ARGV, 1, 7)
local us, now = clock()
if not is_under(call('ZSCORE', LEASED, member), receipt) then return { '' } end
local own, common = settings_of(topic)
local used = used_in(try('HGET', ATTEMPTS, member)) or math.huge
used = used + 1
local limit = options_of(call('HGET', MESSAGES, member)).attempts or setting('attempts', own, common)

-- A random wait of less than a bound, which doubles with each attempt: exponential backoff with full jitter (M. Brooker, AWS
-- Architecture Blog, 2015). The caller draws the number, since Redis draws the same numbers in each script.
local function backoff()
  local least, most = setting('backoff_min', own, common), setting('backoff_max', own, common)
  return math.floor(math.min(least * 2 ^ (used - 1), math.max(least, most)) * share / 1e6)
end

local function give_up_lease()
  use_up(member)
  take_leased({ member })
end

if at_once == '1' or used >= limit then
  if used == math.huge then used = 0 end
  local function stay_leased() unbury(topic, member) end
  local buried = or_undo(stay_leased, function()
    if not bury(topic, member, reason, used, now) then return false end
    give_up_lease()
    return true
  end)
  if not buried then return foreign_dead(topic) end
  count(topic, 'leased', -1)
  return { 'dead', used, now }
end
local due = math.ceil(us / 1000) + (tonumber(delay) or backoff())
if not put_scheduled(topic, { due, member }, due) then return foreign_schedule(topic) end
no_longer_leased(member, now)
give_up_lease()
count(topic, 'leased', -1)
return { 'scheduled', used, due }
