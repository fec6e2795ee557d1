-- Makes dead letters of a topic ready again, with all their attempts and their whole time to live; they wait in the schedule
-- where something of the topic is overdue. A broadcast waits for the carrier.
-- KEYS[10..13]: ready, waiting, dead and schedule of the topic.
-- ARGV[3]: topic, ARGV[4]: how many of the oldest, and ARGV[5]: how many to pass over before them; or 0, then ARGV[5..]: members.
-- Reply: how many were requeued, and how many were left because their record is missing.
local MAX = 253402300799999
local us, now = clock()
local topic, members = ARGV[3], nil
if ARGV[4] ~= '0' then
  members = call('ZRANGE', KEYS[12], ARGV[5], ARGV[5] + ARGV[4] - 1)
else
  members = { unpack(ARGV, 5) }
end
local ready, broadcasts, again, left = {}, {}, {}, 0
for _, member in ipairs(members) do
  if call('ZSCORE', KEYS[12], member) then
    local record = call('HGET', MESSAGES, member)
    if record and topic_of(member) == topic and try('HGET', DEATHS, member) ~= 'record is missing' then
      local line = line_of(record)
      if line.ttl then call('ZADD', EXPIRIES, math.min(now + line.ttl, MAX), member) end
      local place = line.broadcast and broadcasts or ready
      place[#place + 1] = now
      place[#place + 1] = member
      again[#again + 1] = member
    else
      left = left + 1
    end
  end
end
if #broadcasts > 0 then
  nudge(now, call('ZRANGE', BROADCASTS, 0, 0, 'WITHSCORES')[2])
  call('ZADD', BROADCASTS, unpack(broadcasts))
  count(topic, 'broadcasts', #broadcasts / 2)
end
if #again > 0 then count(topic, 'released', 1) end
local later = #ready > 0 and is_behind(topic, now)
if later and not schedule(topic, KEYS[13], now, ready) then return foreign_schedule(topic, KEYS[13]) end
if #ready > 0 and not later and not add_ready(topic, KEYS[10], now, ready) then return foreign_ready(topic, KEYS[10]) end
if #again > 0 then
  call('ZREM', KEYS[12], unpack(again))
  try('HDEL', DEATHS, unpack(again))
  try('HDEL', ATTEMPTS, unpack(again))
end
if #ready > 0 and not later then ring(topic, KEYS[11], #ready / 2, us) end
return { #again, left }
