-- Gives a message back as not done. It uses up an attempt, and buries it if that was the last or if it shall be dead.
-- KEYS[10..13]: ready, waiting, dead and schedule of its topic.
-- ARGV[3]: topic, ARGV[4]: member, ARGV[5]: receipt, ARGV[6]: when again, in ms from now, ARGV[7]: reason,
--   ARGV[8]: default limit of attempts, ARGV[9]: 1 to bury it at once.
-- Reply: the state it is in now, or '' if the lease is lost; attempts used up; its due time in ms.
local us, now = clock()
local topic, member = ARGV[3], ARGV[4]
if call('ZSCORE', LEASED, member) ~= ARGV[5] then return { '' } end
local used = used_in(try('HGET', ATTEMPTS, member)) or math.huge
used = used + 1
local limit = line_of(call('HGET', MESSAGES, member)).attempts or tonumber(ARGV[8])

local function give_up_lease()
  use_up(member)
  call('ZREM', LEASED, member)
end

if ARGV[9] == '1' or used >= limit then
  if used == math.huge then used = 0 end
  local function stay_leased()
    try('HDEL', DEATHS, member)
    call('ZREM', KEYS[12], member)
  end
  local buried = or_undo(stay_leased, function()
    if not bury(KEYS[12], member, ARGV[7], used, now) then return false end
    give_up_lease()
    return true
  end)
  if not buried then return redis.error_reply('the dead letters of ' .. topic .. ' are foreign: ' .. KEYS[12]) end
  count(topic, 'leased', -1)
  return { 'dead', used, now }
end
local due = math.ceil(us / 1000) + ARGV[6]
if not schedule(topic, KEYS[13], due, { due, member }) then return foreign_schedule(topic, KEYS[13]) end
no_longer_leased(member, now)
give_up_lease()
count(topic, 'leased', -1)
return { 'scheduled', used, due }
