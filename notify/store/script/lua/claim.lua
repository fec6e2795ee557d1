-- Leases ready messages of a topic to one subscriber, oldest due first, or acknowledges them at once; none while it is paused.
-- ARGV: topic; how many at the most; lease in ms, 0 for that of its settings, -1 to acknowledge; for how many ms they must have been
--   due; the inbox that waits if there are fewer, or ''; when the last hand-over that it received was made, in us, or 0;
--   and the name of the worker, if it tells that.
-- Reply: 1 if there were fewer, and now in us. Then by name what there is of: on_the_way, 1 if nothing was claimed because the inbox has
--   not received a hand-over yet; ripe, in how many ms the oldest ready one is old enough, if none was; attempts, those used up by each, as
--   in ATTEMPTS; claimed, behind which stand the lease in ms, the receipt of each that has used up no attempt, members, their due times,
--   each with how many in a row have it, and their records (missing if a message was buried or dropped instead: it expired, is too late,
--   its record is missing, or it is of another topic); own, of each that has its own lease or is late its place among those that have
--   records, its lease in ms, and 1 if it is late; buried and dropped, member and reason of each.
local topic, most, lease, age, inbox, received = unpack(ARGV, 1, 6)
most, lease, age = tonumber(most), tonumber(lease), tonumber(age)
local us, now = clock()
local ready, waiting = ready_of(topic), waiting_of(topic)
local handed = inbox ~= '' and tonumber(try('ZSCORE', waiting, inbox) or 0) - Rings.HANDOVER or -1
if handed >= 0 and handed ~= tonumber(received) and math.abs(us - handed) < UNCONFIRMED then -- older than what could be claimed
  return { 1, us, 'on_the_way', 1 }
end
local own, common, given_back, history = unpack(try('HMGET', TOPICS, topic .. ':settings', '*:settings', topic .. ':released', '*:history') or {})
if Settings.get('paused', own, nil) == 1 then -- the inbox waits, so that it is rung when the topic is resumed
  if inbox ~= '' then try('ZADD', waiting, text(us), inbox) end
  return { 1, us }
end
local FEW = 16 -- messages whose due times are read with them: reading those of more costs too much
local found = call('ZRANGE', ready, '-inf', now - age, 'BYSCORE', 'LIMIT', '0', most > FEW and FEW or ARGV[2], 'WITHSCORES')
if #found == 0 then
  if inbox ~= '' then try('ZADD', waiting, text(us), inbox) end
  local first = age > 0 and (try('ZRANGE', ready, 0, 0, 'WITHSCORES') or {})[2]
  return first and { 1, us, 'ripe', math.ceil(first + age - now) } or { 1, us }
end

if lease == 0 then lease = Settings.get('lease', own, common) end
local members = {}
if most > FEW and #found == 2 * FEW then
  members, found = call('ZRANGE', ready, '-inf', now - age, 'BYSCORE', 'LIMIT', 0, most), nil
else
  for i = 1, #found, 2 do members[#members + 1] = found[i] end
end
local records = Messages.records_of(members)
local n = #records
local expiries, attempts = {}, {}
if call('EXISTS', EXPIRIES, ATTEMPTS) > 0 then
  expiries, attempts = try('ZMSCORE', EXPIRIES, unpack(members, 1, n)) or {}, try('HMGET', ATTEMPTS, unpack(members, 1, n)) or {}
  local size = 0
  for i = 1, #attempts do
    if size >= BYTES / 4 then n, records[i], attempts[i] = math.min(n, i - 1), nil, nil end
    size = size + #(attempts[i] or '')
  end
end
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

local released = Leases.digit_of(given_back)
local receipt = Leases.receipt_of(us + lease * 1000, released)
local same = text(receipt) -- for all that have used up no attempt: formatting it once is faster
local leases, leased, buried, oldest = {}, 0, {}, nil
local on_time = us - age * 1000 -- the due time, in us, of what is not late
local byte, others = string.byte, nil -- others: what is told of messages that are not as most are
for i = 1, n do
  local member, record, own_lease, state = members[i], records[i], lease, nil
  local expired = expiries[i] and Leases.has_expired(expiries[i], now)
  if not record or byte(record) == 43 or expired or not all_own and string.find(member, prefix, 1, true) ~= 1 then
    others = others or { dead = buried, dropped = {}, leases = {}, bare = 0 }
    local reason, late
    state, reason, own_lease, late = Fates.fate_of(topic, member, record, Leases.used_in(attempts[i]) or 0, expired, lease, us)
    local list = others[state]
    if state then
      records[i] = false
      if history then redis.pcall('HINCRBY', LATE, string.char(65 + Counters.late_bucket(on_time - call('ZSCORE', ready, member) * 1000)), -1) end
      if list then list[#list + 1], list[#list + 2] = member, reason end
    elseif not record then
      others.bare = others.bare + 1
    elseif own_lease ~= lease or late then
      list = others.leases
      list[#list + 1], list[#list + 2], list[#list + 3] = leased / 2 + 1 - others.bare, own_lease, late and 1 or 0
    end
  end
  if not state then
    oldest = oldest or member
    local its = own_lease == lease and receipt or receipt + (own_lease - lease) * 1000
    leases[leased + 1] = attempts[i] and Leases.receipt_of(its, (released + Leases.digit_of(attempts[i])) % 10) or its == receipt and same or text(its)
    leases[leased + 2] = member
    leased = leased + 2
  end
end
if leased > 0 then
  if lease >= 0 then
    if ARGV[7] then Attempts.note_claim(receipt, others and others.leases or {}, lease, now, topic, ARGV[7]) end
    Leases.put_leased(leases)
    Counters.count(topic, 'leased', leased / 2)
  end
  oldest = oldest == members[1] and runs[1] or call('ZSCORE', ready, oldest)
  try('HSET', TOPICS, topic .. ':lateness', text(math.min(us - (oldest + age) * 1000, LAST))) -- in us, of the oldest
end
-- All are counted, also those that are not leased, which are taken off above. They are sorted by time: where they differ, one look finds
-- how many have the bucket of the first that is left, or one behind it.
local newest, counted = runs[#runs - 1], history and 0 or n
local least = history and Counters.late_bucket(on_time - newest * 1000)
while counted < n do
  local bucket, to = least, n
  if runs[1] ~= newest then
    local due = counted == 0 and runs[1] or call('ZSCORE', ready, members[counted + 1])
    bucket = Counters.late_bucket(on_time - due * 1000)
  end
  if bucket > least then
    to = math.max(math.min(call('ZCOUNT', ready, '-inf', (on_time - 100 * 2 ^ ((bucket - 1) / 2)) / 1000), n), counted + 1)
  end
  redis.pcall('HINCRBY', LATE, string.char(65 + bucket), n == 1 and '1' or to - counted)
  counted = to
end
local reply = { short and 1 or 0, us, 'claimed', lease, receipt, members, runs, records }
if #attempts > 0 then reply = { short and 1 or 0, us, 'attempts', attempts, 'claimed', lease, receipt, members, runs, records } end
for name, list in pairs(others and { own = others.leases, buried = buried, dropped = others.dropped } or {}) do
  if #list > 0 then reply[#reply + 1], reply[#reply + 2] = name, list end
end
if lease >= 0 and #current.heirs == 0 and not (others and others.dropped[1]) then
  Places.take_oldest_ready(topic, n)
  return reply
end

local acked, dropped = {}, {}
for i = 2, lease < 0 and leased or 0, 2 do acked[#acked + 1] = leases[i] end
local reasons = {}
for i = 1, others and #others.dropped or 0, 2 do dropped[#dropped + 1], reasons[#reasons + 1] = others.dropped[i], others.dropped[i + 1] end
local n_acked, n_dropped = #acked, #dropped

-- Makes those that did not end ready again as they were.
local function put_back()
  local left, list, k = {}, {}, 0
  for _, some in ipairs({ acked, dropped, current.heirs }) do
    for _, member in ipairs(some) do left[member] = true end
  end
  for r = 1, #runs, 2 do
    for _ = 1, runs[r + 1] do
      k = k + 1
      if left[members[k]] then list[#list + 1], list[#list + 2] = runs[r], members[k] end
    end
  end
  if #list > 0 then Places.put_ready(topic, list, runs[1]) end
end

Leases.can_put_back()
or_undo(put_back, function()
  Places.take_oldest_ready(topic, n)
  Endings.publish_heirs(us, now)
  if n_acked > 0 then Endings.end_messages(acked, 'acked') end
  if n_dropped > 0 then Endings.end_messages(dropped, 'dropped', reasons) end
end)
if n_acked > 0 then
  Counters.count(topic, 'acked', n_acked)
  Counters.count_all('acked', n_acked)
end
if n_dropped > 0 then Endings.count_dropped(topic, n_dropped) end
return reply
