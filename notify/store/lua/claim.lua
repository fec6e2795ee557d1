-- Leases ready messages of a topic to one subscriber, oldest due first; none while it is paused.
-- ARGV: topic; how many at the most; lease in ms, 0 for that of its settings; for how many ms they must have been due; the inbox that
--   waits if there are fewer, or ''; when the last hand-over that it received was made, in us, or 0.
-- Reply: 1 if there were fewer, the lease in ms, the receipt of each that has used up no attempt, members, their due times, each with
--   how many in a row have it, their records (missing if a message was buried instead: it expired, its record is missing, or it is of
--   another topic), attempts used up by each (empty if none by any), member and reason of each one buried, and if none was old enough,
--   in how many ms the oldest ready one is (-1: nothing is ready); now in us; 1 if nothing was claimed because the inbox has not
--   received a hand-over yet.
local topic, most, lease, age, inbox, received = unpack(ARGV, 1, 6)
most, lease, age = tonumber(most), tonumber(lease), tonumber(age)
local us, now = clock()
local ready, waiting = ready_of(topic), waiting_of(topic)
local handed = inbox ~= '' and tonumber(try('ZSCORE', waiting, inbox) or 0) - HANDOVER or -1
if handed >= 0 and handed ~= tonumber(received) and math.abs(us - handed) < UNCONFIRMED then -- older than what could be claimed
  return { 1, 0, 0, {}, {}, {}, {}, {}, -1, us, 1 }
end
local own, common, given_back = unpack(try('HMGET', TOPICS, topic .. ':settings', '*:settings', topic .. ':released') or {})
if setting('paused', own, nil) == 1 then -- the inbox waits, so that it is rung when the topic is resumed
  if inbox ~= '' then try('ZADD', waiting, text(us), inbox) end
  return { 1, 0, 0, {}, {}, {}, {}, {}, -1, us, 0 }
end
local FEW = 16 -- messages whose due times are read with them: reading those of more costs too much
local found = call('ZRANGE', ready, '-inf', now - age, 'BYSCORE', 'LIMIT', 0, math.min(most, FEW), 'WITHSCORES')
if #found == 0 then
  if inbox ~= '' then try('ZADD', waiting, text(us), inbox) end
  local first = age > 0 and (try('ZRANGE', ready, 0, 0, 'WITHSCORES') or {})[2]
  return { 1, 0, 0, {}, {}, {}, {}, {}, first and math.ceil(first + age - now) or -1, us, 0 }
end

-- * * *

if lease == 0 then lease = setting('lease', own, common) end
local members = {}
if most > FEW and #found == 2 * FEW then
  members, found = call('ZRANGE', ready, '-inf', now - age, 'BYSCORE', 'LIMIT', 0, most), nil
else
  for i = 1, #found, 2 do members[#members + 1] = found[i] end
end
local records = records_of(members)
local n = #records
local short = #members < most and n == #members
for i = #members, n + 1, -1 do members[i] = nil end -- those that do not fit into one reply stay ready

local runs, at, all_own = {}, 0, not found
local function add_run(due, same)
  if due ~= runs[#runs - 1] then
    runs[#runs + 1] = due
    runs[#runs + 1] = 0
  end
  runs[#runs] = runs[#runs] + same
  at = at + same
end
-- Of a long run only the first and the last are looked at: members of one time are sorted by name, so all are of the topic if these are.
local prefix = topic .. ':'
while all_own and at < n do
  local due = call('ZSCORE', ready, members[at + 1])
  local all = call('ZCOUNT', ready, due, due)
  local same = math.min(all, n - at)
  all_own = (all >= FEW or same == n - at) and string.find(members[at + 1], prefix, 1, true) == 1 and string.find(members[at + same], prefix, 1, true) == 1
  if all_own then add_run(due, same) end
end
if found then
  for i = 2, 2 * n, 2 do add_run(found[i], 1) end
elseif not all_own then
  for _, due in ipairs(call('ZMSCORE', ready, unpack(members, at + 1))) do add_run(due, 1) end
end

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
local leases, leased, buried, oldest = {}, 0, {}, nil
for i = 1, n do
  local member, fault = members[i], nil
  if not all_own and string.find(member, prefix, 1, true) ~= 1 then
    fault, records[i] = STRAY, false
  elseif not records[i] then
    fault = NO_RECORD
  elseif expiries[i] and has_expired(expiries[i], now) then
    fault = 'expired'
  end
  if fault and bury(topic, member, fault, used_in(attempts[i]) or 0, now) then
    records[i] = false
    buried[#buried + 1] = member
    buried[#buried + 1] = fault
  elseif fault ~= STRAY then -- a stray that cannot be buried is only taken out
    oldest = oldest or member
    leases[leased + 1] = attempts[i] and receipt_of(receipt, (released + digit_of(attempts[i])) % 10) or same
    leases[leased + 2] = member
    leased = leased + 2
  end
end
if leased > 0 then
  put_leased(leases)
  count(topic, 'leased', leased / 2)
  oldest = oldest == members[1] and runs[1] or call('ZSCORE', ready, oldest)
  try('HSET', TOPICS, topic .. ':lateness', text(math.min(us - (oldest + age) * 1000, LAST))) -- in us, of the oldest
end
take_oldest_ready(topic, n)
return { short and 1 or 0, lease, receipt, members, runs, records, attempts, buried, -1, us, 0 }
