-- Makes dead letters of a topic ready again, with all their attempts and their whole time to live.
-- KEYS[9..11]: ready, waiting and dead of the topic.
-- ARGV[3]: topic, ARGV[4]: how many of the oldest, and ARGV[5]: how many to pass over before them; or 0, then ARGV[5..]: members.
-- Reply: how many were requeued, and how many were left because their record is missing.
local MAX = 253402300799999
local us, now = clock()
local topic, members = ARGV[3], nil
if ARGV[4] ~= '0' then
  members = call('ZRANGE', KEYS[11], ARGV[5], ARGV[5] + ARGV[4] - 1)
else
  members = { unpack(ARGV, 5) }
end
local ready, again, left = {}, {}, 0
for _, member in ipairs(members) do
  if call('ZSCORE', KEYS[11], member) then
    local record = call('HGET', MESSAGES, member)
    if record and topic_of(member) == topic then
      local ttl = line_of(record).ttl
      if ttl then call('ZADD', EXPIRIES, math.min(now + ttl, MAX), member) end
      ready[#ready + 1] = now
      ready[#ready + 1] = member
      again[#again + 1] = member
    else
      left = left + 1
    end
  end
end
if #ready > 0 then
  call('ZADD', KEYS[9], unpack(ready))
  call('SADD', READY, topic)
  call('ZREM', KEYS[11], unpack(again))
  call('HDEL', DEATHS, unpack(again))
  call('HDEL', ATTEMPTS, unpack(again))
  ring(topic, KEYS[10], #again, us)
end
return { #again, left }
