-- Gives a scheduled or ready message, or a broadcast that waits, another due time; its time to live counts from there.
-- KEYS[10..13]: ready, waiting, dead and schedule of its topic.
-- ARGV[3]: topic, ARGV[4]: member, ARGV[5]: when: -DELAY, 0 for at once, or DUE, all in ms. DUE in the past is now but for broadcasts,
--   and a time to live counts from DUE.
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

local asked = due
due = math.max(due, now)

-- Whether another message of the topic is overdue.
local function is_behind_another()
  local first = try('ZRANGE', KEYS[13], 0, 1, 'WITHSCORES') or {}
  local head = tonumber(first[first[1] == member and 4 or 2])
  return head and head <= now
end

local later = due > now or is_behind_another()
if later and (scheduled == nil or not try('ZCARD', SCHEDULES)) then return foreign_schedule(topic, KEYS[13]) end
local ttl = line_of(call('HGET', MESSAGES, member)).ttl
local expiry = ttl and math.min(asked + ttl, MAX)
if expiry then call('ZADD', EXPIRIES, 'GT', expiry, member) end -- for now the later of the two, so that it never expires too early

if later then
  schedule(topic, KEYS[13], due, { due, member })
  if scheduled then
    set_head(topic, KEYS[13]) -- which it may have been, and due before
  else
    call('ZREM', KEYS[10], member)
    leave_ready(topic, KEYS[10])
  end
else
  if not add_ready(topic, KEYS[10], due, { due, member }) then return foreign_ready(topic, KEYS[10]) end
  if scheduled then unschedule(topic, KEYS[13], member) end
  ring(topic, KEYS[11], 1, us)
end
if expiry then call('ZADD', EXPIRIES, expiry, member) end
return { state, due, now, 0 }
