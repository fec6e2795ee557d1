-- What a claim does. Each function gets the state c of the claim: claim.lua makes it.
Claim.FEW = 16 -- messages whose due times are read with them: reading those of more costs too much

-- Whether a hand-over of a topic is on its way to an inbox: it is older than what could be claimed.
function Claim.is_on_the_way(topic, inbox, received, us)
  if inbox == '' then return false end
  local handed = tonumber(try('ZSCORE', waiting_of(topic), inbox) or 0) - Rings.HANDOVER
  return handed >= 0 and handed ~= tonumber(received) and math.abs(us - handed) < UNCONFIRMED + SPARE
end

-- Makes an inbox wait for a topic.
function Claim.wait(topic, inbox, us)
  if inbox ~= '' then try('ZADD', waiting_of(topic), text(us), inbox) end
end

-- Returns the oldest members of a ready set that were due before a time, and their due times, or nil if they are many.
function Claim.find(ready, before, most)
  local few = Claim.FEW
  local found = call('ZRANGE', ready, '-inf', before, 'BYSCORE', 'LIMIT', '0', most > few and few or most, 'WITHSCORES')
  if most > few and #found == 2 * few then return call('ZRANGE', ready, '-inf', before, 'BYSCORE', 'LIMIT', 0, most), nil end
  if #found == 0 then return found end
  local members, dues = {}, {}
  for i = 1, #found, 2 do members[#members + 1], dues[#dues + 1] = found[i], found[i + 1] end
  return members, dues
end

-- Returns the member of a ready set that is behind another one, or else the oldest, and its due time, if it was due before a time.
function Claim.find_behind(ready, member, before)
  local rank = try('ZRANK', ready, member)
  local found = rank and call('ZRANGE', ready, rank + 1, rank + 1, 'WITHSCORES') or {}
  if not found[1] or tonumber(found[2]) > before then found = call('ZRANGE', ready, '-inf', before, 'BYSCORE', 'LIMIT', '0', '1', 'WITHSCORES') end
  return { found[1] }, { found[2] }
end

-- Returns the records, the expiries and the attempts of as many members of a topic as fit into one reply, or have so many bytes, and whether
-- messages of the topic have keys; and takes the others out of the list: they stay ready.
function Claim.read(topic, members, most)
  local records, expiries, attempts = Messages.records_of(members, most), {}, {}
  local n, kept = #records, call('EXISTS', EXPIRIES, ATTEMPTS, keys_of(topic))
  local keyed = kept > 0 and Seats.are_in(topic)
  if kept > (keyed and 1 or 0) then
    expiries, attempts = try('ZMSCORE', EXPIRIES, unpack(members, 1, n)) or {}, try('HMGET', ATTEMPTS, unpack(members, 1, n)) or {}
    local size = 0
    for i = 1, #attempts do
      if size >= BYTES / 4 then n, records[i], attempts[i] = math.min(n, i - 1), nil, nil end
      size = size + #(attempts[i] or '')
    end
  end
  for i = #members, n + 1, -1 do members[i] = nil end
  return records, expiries, attempts, keyed
end

-- Adds messages of the same due time to runs.
local function add_run(runs, due, same)
  if due ~= runs[#runs - 1] then
    runs[#runs + 1] = due
    runs[#runs + 1] = 0
  end
  runs[#runs] = runs[#runs] + same
end

-- Returns the due times of members, each with how many in a row have it, and whether all are known to be of the topic. Of a long run only
-- the first and the last are looked at: members of one time are sorted by name, so all are of the topic if these are.
function Claim.runs_of(ready, topic, members, dues)
  local runs, n, at, all_own, prefix = {}, #members, 0, not dues, topic .. ':'
  for i = 1, dues and n or 0 do add_run(runs, dues[i], 1) end
  while all_own and at < n do
    local due = call('ZSCORE', ready, members[at + 1])
    local all = call('ZCOUNT', ready, due, due)
    local same = math.min(all, n - at)
    all_own = (all >= Claim.FEW or same == n - at) and string.find(members[at + 1], prefix, 1, true) == 1
      and string.find(members[at + same], prefix, 1, true) == 1
    if all_own then
      add_run(runs, due, same)
      at = at + same
    end
  end
  for _, due in ipairs(not dues and not all_own and call('ZMSCORE', ready, unpack(members, at + 1)) or {}) do add_run(runs, due, 1) end
  return runs, all_own
end

-- Decides on the message at a place that is not as most are. Returns its lease, or nil, and then it is not leased.
local function judge(c, i, place, expired)
  local member, record = c.members[i], c.records[i]
  local others = c.others or { dead = {}, dropped = {}, leases = {}, bare = 0 }
  c.others = others
  local fate, reason, lease = Fates.fate_of(c.topic, member, record, Leases.used_in(c.attempts[i]) or 0, expired, c.lease, c.us)
  if fate then
    c.records[i] = false
    if c.history then
      local bucket = Counters.late_bucket(c.on_time - call('ZSCORE', c.ready, member) * 1000)
      redis.pcall('HINCRBY', LATE, string.char(65 + bucket), -1)
    end
    local list = others[fate]
    if list then list[#list + 1], list[#list + 2] = member, reason end
    return nil
  end
  if not record then
    others.bare = others.bare + 1
  elseif lease ~= c.lease then
    local list = others.leases
    list[#list + 1], list[#list + 2] = place - others.bare, lease
  end
  return lease
end

-- Returns the leases, pairs of receipt and member. Makes c.others, what there is to say of messages that are not as most are.
function Claim.leases_of(c)
  local lease, members, records, expiries, attempts = c.lease, c.members, c.records, c.expiries, c.attempts
  local now, all_own, prefix, byte = c.now, c.all_own, c.topic .. ':', string.byte
  local released = c.released
  local receipt = c.receipt
  local same = text(receipt) -- for all that have used up no attempt: formatting it once is faster
  local leases, leased = {}, 0
  for i = 1, #members do
    local member, record, own_lease = members[i], records[i], lease
    local expired = expiries[i] and Leases.has_expired(expiries[i], now)
    if not record or byte(record) == 43 or expired or not all_own and string.find(member, prefix, 1, true) ~= 1 then
      own_lease = judge(c, i, leased / 2 + 1, expired)
    end
    if own_lease then
      local its = own_lease == lease and receipt or receipt + (own_lease - lease) * 1000
      leases[leased + 1] = attempts[i] and Leases.receipt_of(its, (released + Leases.digit_of(attempts[i])) % 10) or its == receipt and same
        or text(its)
      leases[leased + 2] = member
      leased = leased + 2
    end
  end
  return leases
end

-- The fence of the first of some messages that are claimed of a topic whose messages have keys: greater than those of all before, also if
-- the clock was set back. The others have one more each.
function Claim.fence_of(topic, us)
  local last = tonumber(try('HGET', TOPICS, topic .. ':fence') or nil)
  return last and last >= us and last < LAST and last or us
end

-- Leases the messages to a worker, if it tells its name.
function Claim.put_leased(c, leases, worker)
  local first = leases[2]
  if not first then return end
  if c.lease >= 0 then
    if c.slots then Limits.take(c.topic, leases) end
    if worker then Attempts.note_claim(c.receipt, c.others and c.others.leases or {}, c.lease, c.now, c.topic, worker) end
    Leases.put_leased(leases)
    Counters.count(c.topic, 'leased', #leases / 2)
  end
  local topic, fence = c.topic, c.fence and text(c.fence + #c.members)
  if c.rate then try('HSET', TOPICS, topic .. ':spent', Limits.spend(c.rate, #leases / 2)) end
  if c.behind then
    if fence then try('HSET', TOPICS, topic .. ':fence', fence) end
    return
  end
  local oldest = first == c.members[1] and c.runs[1] or call('ZSCORE', c.ready, first)
  local late = text(math.min(c.on_time - oldest * 1000, LAST)) -- in us
  if fence then try('HSET', TOPICS, topic .. ':lateness', late, topic .. ':fence', fence) else try('HSET', TOPICS, topic .. ':lateness', late) end
end

-- Counts how late the messages were. All are counted, also those that are not leased, which are taken off when that is decided. They are
-- sorted by time: where they differ, one look finds how many have the bucket of the first that is left, or one behind it.
function Claim.count_late(c)
  local runs, n, on_time, counted = c.runs, #c.members, c.on_time, 0
  local newest = runs[#runs - 1]
  local least = Counters.late_bucket(on_time - newest * 1000)
  while counted < n do
    local bucket, to = least, n
    if runs[1] ~= newest then
      local due = counted == 0 and runs[1] or call('ZSCORE', c.ready, c.members[counted + 1])
      bucket = Counters.late_bucket(on_time - due * 1000)
    end
    if bucket > least then
      local behind = (on_time - 100 * 2 ^ ((bucket - 1) / 2)) / 1000
      to = math.max(math.min(call('ZCOUNT', c.ready, '-inf', behind), n), counted + 1)
    end
    redis.pcall('HINCRBY', LATE, string.char(65 + bucket), n == 1 and '1' or to - counted)
    counted = to
  end
end

-- The reply, see claim.lua.
function Claim.reply(c, short)
  local reply, others = { short, c.us, 'claimed', c.lease, c.receipt, c.members, c.runs, c.records }, c.others
  if #c.attempts > 0 then reply = { short, c.us, 'attempts', c.attempts, 'claimed', c.lease, c.receipt, c.members, c.runs, c.records } end
  if c.fence then reply[#reply + 1], reply[#reply + 2] = 'fence', c.fence end
  if not others then return reply end
  for name, list in pairs({ own = others.leases, buried = others.dead, dropped = others.dropped }) do
    if #list > 0 then reply[#reply + 1], reply[#reply + 2] = name, list end
  end
  return reply
end

-- Makes those of some lists ready again as they were.
local function put_back(c, lists)
  local left, list, k = {}, {}, 0
  for _, some in ipairs(lists) do
    for _, member in ipairs(some) do left[member] = true end
  end
  for r = 1, #c.runs, 2 do
    for _ = 1, c.runs[r + 1] do
      k = k + 1
      if left[c.members[k]] then list[#list + 1], list[#list + 2] = c.runs[r], c.members[k] end
    end
  end
  if #list > 0 then Places.put_ready(c.topic, list, c.runs[1]) end
end

-- Takes the messages out of the ready set.
local function take_ready(c)
  if c.behind then return Places.take_ready(c.topic, c.members[1]) end
  Places.take_oldest_ready(c.topic, #c.members)
end

-- Takes the messages out of the ready set, and ends those that are dropped, and, where the claim acknowledges, all others.
function Claim.take(c, leases)
  if c.lease >= 0 and not c.others then return take_ready(c) end
  local acked, dropped, reasons = {}, {}, {}
  for i = 2, c.lease < 0 and #leases or 0, 2 do acked[#acked + 1] = leases[i] end
  for i = 1, c.others and #c.others.dropped or 0, 2 do
    dropped[#dropped + 1], reasons[#reasons + 1] = c.others.dropped[i], c.others.dropped[i + 1]
  end
  local n_acked, n_dropped = #acked, #dropped
  if n_acked + n_dropped + #current.heirs == 0 then return take_ready(c) end
  Leases.can_put_back()
  or_undo(function() put_back(c, { acked, dropped, current.heirs }) end, function()
    take_ready(c)
    Endings.publish_heirs(c.us, c.now)
    if n_acked > 0 then Endings.end_messages(acked, 'acked') end
    if n_dropped > 0 then Endings.end_messages(dropped, 'dropped', reasons) end
  end)
  if n_acked > 0 then
    Counters.count(c.topic, 'acked', n_acked)
    Counters.count_all('acked', n_acked)
  end
  if n_dropped > 0 then Endings.count_dropped(c.topic, n_dropped) end
end
