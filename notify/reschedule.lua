-- Gives a scheduled or ready message, or a broadcast that waits, another due time; its time to live counts from there.
-- KEYS[10..13]: ready, waiting, dead and schedule of its topic.
-- ARGV[3]: topic, ARGV[4]: member, ARGV[5]: when: -DELAY, 0 for at once, or DUE, all in ms.
-- Reply: the state it was in, and where that was scheduled or ready: its due time and now in ms, and 1 for a broadcast; due
--   is -2 past the year 9999.
local MAX = 253402300799999
local us, now = clock()
local topic, member, due = ARGV[3], ARGV[4], tonumber(ARGV[5])
if call('ZSCORE', LEASED, member) then return { 'leased' } end
local broadcast = try('ZSCORE', BROADCASTS, member)
local scheduled = broadcast or try('ZSCORE', KEYS[13], member)
if not scheduled and not call('ZSCORE', KEYS[10], member) then
  if call('ZSCORE', KEYS[12], member) then return { 'dead' } end
  return { '' }
end
local state = scheduled and 'scheduled' or 'ready'

if due < 0 then due = math.ceil(us / 1000) - due elseif due == 0 then due = now end
if due > MAX then return { state, -2, now, 0 } end
if broadcast then
  nudge(due, call('ZRANGE', BROADCASTS, 0, 0, 'WITHSCORES')[2])
  call('ZADD', BROADCASTS, due, member)
  return { state, due, now, 1 }
end
if due > now and (scheduled == nil or not try('ZCARD', SCHEDULES)) then return foreign_schedule(topic, KEYS[13]) end
local ttl = line_of(call('HGET', MESSAGES, member)).ttl
if ttl then call('ZADD', EXPIRIES, math.min(due + ttl, MAX), member) end

if due > now then
  schedule(topic, KEYS[13], { due, member })
  if not scheduled then
    call('ZREM', KEYS[10], member)
    if call('EXISTS', KEYS[10]) == 0 then try('SREM', READY, topic) end
  end
else
  call('ZADD', KEYS[10], due, member)
  try('SADD', READY, topic)
  if scheduled then unschedule(topic, KEYS[13], member) end
  ring(topic, KEYS[11], 1, us)
end
return { state, due, now, 0 }
