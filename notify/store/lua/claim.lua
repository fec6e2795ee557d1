-- Leases ready messages of a topic to one subscriber, oldest due first; none while it is paused.
-- ARGV: topic; how many at the most; lease in ms, 0 for that of its settings; for how many ms they must have been due; the inbox that
--   waits if there are fewer, or ''; when the last hand-over that it received was made, in us, or 0.
-- Reply: 1 if there were fewer, the lease in ms, the receipt of each that has used up no attempt, members and due times, their records
--   (missing if a message was buried instead: it expired, its record is missing, or it is of another topic), attempts used up by each
--   (empty if none by any), member and reason of each one buried, and if none was old enough, in how many ms the oldest ready one is
--   (-1: nothing is ready); now in us; 1 if nothing was claimed because the inbox has not received a hand-over yet.
local topic, most, lease, age, inbox, received = unpack(ARGV, 1, 6)
most, lease, age = tonumber(most), tonumber(lease), tonumber(age)
local us, now = clock()
local ready, waiting = ready_of(topic), waiting_of(topic)
local handed = inbox ~= '' and tonumber(try('ZSCORE', waiting, inbox) or 0) - HANDOVER or -1
if handed >= 0 and handed ~= tonumber(received) and math.abs(us - handed) < UNCONFIRMED then -- older than what could be claimed
  return { 1, 0, 0, {}, {}, {}, {}, -1, us, 1 }
end
local own, common, given_back = unpack(try('HMGET', TOPICS, topic .. ':settings', '*:settings', topic .. ':released') or {})
if setting('paused', own, nil) == 1 then -- the inbox waits, so that it is rung when the topic is resumed
  if inbox ~= '' then try('ZADD', waiting, text(us), inbox) end
  return { 1, 0, 0, {}, {}, {}, {}, -1, us, 0 }
end
local found = call('ZRANGE', ready, '-inf', now - age, 'BYSCORE', 'LIMIT', 0, most, 'WITHSCORES')
if #found == 0 then
  if inbox ~= '' then try('ZADD', waiting, text(us), inbox) end
  local first = age > 0 and (try('ZRANGE', ready, 0, 0, 'WITHSCORES') or {})[2]
  return { 1, 0, 0, {}, {}, {}, {}, first and math.ceil(first + age - now) or -1, us, 0 }
end

-- * * *

if lease == 0 then lease = setting('lease', own, common) end
local members = {}
for i = 1, #found, 2 do members[#members + 1] = found[i] end
local records = records_of(members)
local short = #members < most and #records == #members
for i = #members, #records + 1, -1 do members[i] = nil end -- those that do not fit into one reply stay ready

if inbox ~= '' then
  if short then try('ZADD', waiting, text(us), inbox) else try('ZREM', waiting, inbox) end
end

local expiries, attempts = {}, {}
if call('EXISTS', EXPIRIES, ATTEMPTS) > 0 then
  expiries, attempts = try('ZMSCORE', EXPIRIES, unpack(members)) or {}, try('HMGET', ATTEMPTS, unpack(members)) or {}
end
local released = digit_of(given_back)
local receipt = receipt_of(us + lease * 1000, released)
local same = text(receipt) -- for all that have used up no attempt: formatting it once is faster
local leases, buried, oldest = {}, {}, nil
for i, member in ipairs(members) do
  local fault
  if topic_of(member) ~= topic then
    fault, records[i] = STRAY, false
  elseif not records[i] then
    fault = NO_RECORD
  elseif has_expired(expiries[i], now) then
    fault = 'expired'
  end
  if fault and bury(topic, member, fault, used_in(attempts[i]) or 0, now) then
    records[i] = false
    buried[#buried + 1] = member
    buried[#buried + 1] = fault
  elseif fault ~= STRAY then -- a stray that cannot be buried is only taken out
    oldest = oldest or found[2 * i]
    leases[#leases + 1] = attempts[i] and receipt_of(receipt, (released + digit_of(attempts[i])) % 10) or same
    leases[#leases + 1] = member
  end
end
if #leases > 0 then
  put_leased(leases)
  count(topic, 'leased', #leases / 2)
  try('HSET', TOPICS, topic .. ':lateness', text(math.min(us - (oldest + age) * 1000, LAST))) -- in us, of the oldest
end
take_oldest_ready(topic, #members)
return { short and 1 or 0, lease, receipt, found, records, attempts, buried, -1, us, 0 }
