-- Leases ready messages of a topic to one subscriber, oldest due first; none while it is paused.
-- KEYS[10..13]: ready, waiting, dead and schedule of the topic.
-- ARGV[3]: topic, ARGV[4]: how many at the most, ARGV[5]: lease in ms, ARGV[6]: for how many ms they are due at the least,
--   ARGV[7]: the inbox that waits if there are fewer, or ''.
-- Reply: 1 if there were fewer, the receipt of each that has used up no attempt, members and due times, their records (missing where a
--   message was buried instead: it expired, its record is missing, or it is of another topic), attempts used up by each (empty if none by any),
--   member and reason of each one buried, and in how many ms the oldest that is ready is due for that long, if there are none
--   that are (-1: nothing is ready).
local us, now = clock()
local topic, max, inbox = ARGV[3], tonumber(ARGV[4]), ARGV[7]
local flags = try('HMGET', TOPICS, topic .. ':paused', topic .. ':released') or {}
if flags[1] == '1' then -- whoever comes waits, so that it is rung when the topic is resumed
  if inbox ~= '' then try('ZADD', KEYS[11], text(us), inbox) end
  return { 1, 0, {}, {}, {}, {}, -1 }
end
local found = call('ZRANGE', KEYS[10], '-inf', now - ARGV[6], 'BYSCORE', 'LIMIT', 0, max, 'WITHSCORES')
local members = {}
for i = 1, #found, 2 do members[#members + 1] = found[i] end
local records = records_of(members)
local short = #members < max and #records == #members
for i = #members, #records + 1, -1 do members[i] = nil end -- what does not fit into one reply stays ready

if inbox ~= '' then
  if short then try('ZADD', KEYS[11], text(us), inbox) else try('ZREM', KEYS[11], inbox) end
end
if #members == 0 then
  local oldest = tonumber(ARGV[6]) > 0 and (try('ZRANGE', KEYS[10], 0, 0, 'WITHSCORES') or {})[2]
  return { 1, 0, {}, {}, {}, {}, oldest and math.ceil(oldest + ARGV[6] - now) or -1 }
end

local expiries = call('EXISTS', EXPIRIES) == 1 and try('ZMSCORE', EXPIRIES, unpack(members)) or {}
local attempts = call('EXISTS', ATTEMPTS) == 1 and try('HMGET', ATTEMPTS, unpack(members)) or {}
local released = digit_of(flags[2])
local receipt = receipt_of(us + ARGV[5] * 1000, released)
local same = text(receipt) -- for all that have used up no attempt: Redis would write it anew for each
local leases, buried, oldest = {}, {}, nil
for i, member in ipairs(members) do
  local fault
  if topic_of(member) ~= topic then
    fault, records[i] = STRAY, false
  elseif not records[i] then
    fault = 'record is missing'
  elseif has_expired(expiries[i], now) then
    fault = 'expired'
  end
  if fault and bury(KEYS[12], member, fault, used_in(attempts[i]) or 0, now) then
    records[i] = false
    buried[#buried + 1] = member
    buried[#buried + 1] = fault
  elseif fault ~= STRAY then -- which is only taken out, then
    oldest = oldest or found[2 * i]
    leases[#leases + 1] = attempts[i] and receipt_of(receipt, (released + digit_of(attempts[i])) % 10) or same
    leases[#leases + 1] = member
  end
end
if #leases > 0 then
  call('ZADD', LEASED, unpack(leases))
  count(topic, 'leased', #leases / 2)
  try('HSET', TOPICS, topic .. ':lateness', text(math.min(us - (oldest + ARGV[6]) * 1000, LAST))) -- in us, of the oldest
end
call('ZREMRANGEBYRANK', KEYS[10], 0, #members - 1)
leave_ready(topic, KEYS[10])
return { short and 1 or 0, receipt, found, records, attempts, buried, -1 }
