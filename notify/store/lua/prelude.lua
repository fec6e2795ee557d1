-- What scripts share. The head, up to the first function, stands in front of each, and of the rest what it uses.
-- KEYS[1..9]: the shard's keys, in the order below; a script's own follow. KEYS[#KEYS]: format, which is gone before a script's
--   own part runs.
-- ARGV[1]: what the channels for programs of any language begin with; ARGV[2]: the head channel; a script's own follow.
-- Reply: the error NOSTORE where there is no store, FORMAT where it is of another format, or that of the script.
local STORE = redis.call('GET', table.remove(KEYS)) -- 'FORMAT ID'
if not STORE then return redis.error_reply('NOSTORE there is no store yet') end
if string.sub(STORE, 1, #FORMAT) ~= FORMAT then return redis.error_reply('FORMAT ' .. STORE) end
local SCHEDULES, LEASED, EXPIRIES, MESSAGES, ATTEMPTS, READY, DEATHS, TOPICS, BROADCASTS = unpack(KEYS, 1, 9)
local PREFIX, HEAD = ARGV[1], ARGV[2]
local STRAY = 'member of another topic' -- the reason of one that is dead because it stood in a place of another topic
local BYTES = 4194304 -- a reply holds at most this many bytes of records, and one more
local call = redis.call

-- The time in microseconds and in milliseconds. A script reads it once: before Redis 7.2 it moves on while the script runs.
local function clock()
  local t = call('TIME')
  local us = t[1] * 1000000 + t[2]
  return us, math.floor(us / 1000)
end

-- A large number as Redis writes it, without an exponent.
local function text(number)
  return string.format('%.0f', number)
end

-- The topic of a member, nil if it has none.
local function topic_of(member)
  return string.match(member, '^([^:]+):')
end

-- Whether a topic is one: a foreign member must not make a key that nobody reads.
local function is_topic(topic)
  return #topic <= 128 and not string.find(topic, '[^A-Za-z0-9_.-]') and not string.find('.' .. topic .. '.', '..', 1, true)
end

-- Makes a call that may meet a key or a value that is foreign. It is nil then, and the rest goes on. Any other error,
-- such as a right that is missing, ends the script.
local function try(...)
  local reply = redis.pcall(...)
  if type(reply) ~= 'table' or not reply.err then return reply end
  for _, sign in ipairs({ 'WRONGTYPE', 'not an integer', 'would overflow' }) do
    if string.find(reply.err, sign, 1, true) then return end
  end
  error(reply.err, 0)
end

-- What Redis tells of its memory: its limit in bytes, 0 if it has none, what is in use of it, and the policy by which it may
-- evict what it holds, nil where it does not.
local function memory_of_redis()
  local info = redis.pcall('INFO', 'memory')
  if type(info) ~= 'string' then return { most = 0, used = 0 } end -- the trial server's
  local function bytes(name) return tonumber(string.match(info, '\n' .. name .. ':(%d+)') or 0) end
  local most, policy = bytes('maxmemory'), string.match(info, '\nmaxmemory_policy:([%w-]+)')
  if most == 0 or policy == 'noeviction' then policy = nil end
  return { most = most, used = bytes('used_memory') - bytes('mem_not_counted_for_evict'), evicts = policy }
end

-- Publishes, and returns how many heard it; nil where that is refused.
local function tell(channel, payload)
  local heard = redis.pcall('PUBLISH', channel, payload)
  return type(heard) == 'number' and heard or nil
end

-- Has a topic stand in the index of all names, and where the housekeeping finds it.
local function know(topic)
  try('ZADD', TOPICS .. '-names', 0, topic)
  try('ZADD', TOPICS .. '-seen', 'NX', 0, topic)
end

-- Counts a topic's messages in one of the places that no sorted set of its own counts, or what ever happened to them: a topic of
-- which something happens for the first time is known from then on. Returns how many there are; nil where that is foreign.
local function count(topic, what, by)
  local n = try('HINCRBY', TOPICS, topic .. ':' .. what, by)
  if n == 0 then
    try('HDEL', TOPICS, topic .. ':' .. what)
  elseif n == by and what ~= 'leased' then
    know(topic)
  end
  return n
end

-- Has a topic known no more that nothing ever happened in, and nothing is left of.
local function leave_if_unused(topic)
  local counts = {}
  for i, what in ipairs({ 'published', 'sent', 'acked', 'died', 'broadcasts', 'paused' }) do counts[i] = topic .. ':' .. what end
  for _, n in ipairs(try('HMGET', TOPICS, unpack(counts)) or { true }) do
    if n then return end
  end
  try('ZREM', TOPICS .. '-names', topic)
  try('ZREM', TOPICS .. '-seen', topic)
end

-- Counts what ever happened to the messages of all topics, those that were forgotten too: '*' is no topic.
local function count_all(what, by)
  if by > 0 then try('HINCRBY', TOPICS, '*:' .. what, by) end
end

-- Whether a topic is paused: nothing of it is handed out, and nobody is rung for it.
local function paused(topic)
  return try('HGET', TOPICS, topic .. ':paused') == '1'
end

-- Wakes up to n of the subscribers that wait for a topic, the longest waiting
-- first, and tells programs of other languages. Who was rung stands behind all
-- that were not, until it claims, which gives it a new place: a ring that got
-- lost can be repeated, and one that hangs keeps no message from the others. An
-- inbox that nobody listens on is dropped. While the topic is paused nobody is
-- told: who resumes it rings. It never fails: what is foreign, or a PUBLISH that
-- is refused, counts as a lost ring.
local RUNG = 1e15 -- added to the time since which an inbox waits: us of some 30 years
local function ring(topic, waiting, n, us)
  if paused(topic) then return end
  tell(PREFIX .. 'wake:' .. topic, n)
  local left, rung = math.min(n, 500), {}
  for _ = 1, 8 do
    local dropped = false
    for _, inbox in ipairs(try('ZRANGE', waiting, 0, left - 1) or {}) do
      if rung[inbox] then return end -- there are no others
      if tell(inbox, topic) == 0 then
        call('ZREM', waiting, inbox)
        dropped = true
      else
        call('ZADD', waiting, text(us + RUNG), inbox)
        rung[inbox] = true
        left = left - 1
      end
    end
    if left == 0 or not dropped then return end
  end
end

-- Tells the carrier when something came to be due before all else that waits in a place: its head is the due time there.
local function nudge(due, head)
  if not head or due < tonumber(head) then
    tell(HEAD, text(due))
  end
end

-- When the first in a sorted set is due; nil if there is none, or the key is foreign.
local function head_of(key)
  return tonumber((try('ZRANGE', key, 0, 0, 'WITHSCORES') or {})[2])
end

-- A script that is refused a right in the middle stops there, and what it wrote stays. So each writes what leads to a message
-- before the message, and removes last: wherever it stops the message is carried or claimed, or it is not published.

-- Returns what f does, and undoes what was written where that ends in an error.
local function or_undo(undo, f, ...)
  local ok, reply = pcall(f, ...)
  if ok then return reply end
  undo()
  error(reply, 0)
end

-- A topic that has something ready stands in READY, by the due time of the first in its ready set, or by that of an earlier one
-- that is gone: who claims does not change it. notable.lua sets right what it reads of it.

-- Puts members, as pairs of time and member, into the ready set of their topic. Earliest is the least of the times. False, and
-- nothing is changed, where that is foreign.
local function add_ready(topic, key, earliest, pairs_)
  try('ZADD', READY, 'LT', earliest, topic)
  if try('ZADD', key, unpack(pairs_)) then return true end
  try('ZREM', READY, topic)
  return false
end

-- Has a topic stand in READY no more if nothing of it is ready.
local function leave_ready(topic, key)
  if call('EXISTS', key) == 0 then try('ZREM', READY, topic) end
end

-- What waits for its due time stands in the schedule of its topic, and the topic stands in SCHEDULES, by the due time of the
-- first in it, as long as there is one. Whoever changes a schedule does it by what follows, which keeps that so.

-- Has a topic stand in SCHEDULES as its schedule begins, and returns when that is, nil if it is empty.
local function set_head(topic, schedule)
  local head = call('ZRANGE', schedule, 0, 0, 'WITHSCORES')[2]
  if head then try('ZADD', SCHEDULES, head, topic) else try('ZREM', SCHEDULES, topic) end
  return tonumber(head or nil)
end

-- Puts members, as pairs of time and member, into the schedule of their topic, and tells the carrier if the first of all
-- changed. Earliest is the least of the times. False, and nothing is changed, where a key is foreign.
local function schedule(topic, key, earliest, pairs_)
  local first, head = try('ZRANGE', SCHEDULES, 0, 0, 'WITHSCORES'), try('ZRANGE', key, 0, 0, 'WITHSCORES')
  if not first or not head then return false end
  if head[2] then earliest = math.min(earliest, head[2]) end
  call('ZADD', SCHEDULES, earliest, topic)
  call('ZADD', key, unpack(pairs_))
  nudge(earliest, first[2])
  return true
end

local function foreign_ready(topic, key)
  return redis.error_reply('the ready set of ' .. topic .. ' is foreign: ' .. key)
end

-- Whether something of a topic is overdue: nobody carries, or the carrier is behind. What comes to be due at once waits behind
-- it in the schedule then, so that order holds.
local function is_behind(topic, now)
  local head = tonumber(try('ZSCORE', SCHEDULES, topic) or nil)
  return head and head <= now
end

-- What is answered where that is foreign.
local function foreign_schedule(topic, key)
  return redis.error_reply('the schedule of ' .. topic .. ' or the set of all schedules is foreign: ' .. key .. ', ' .. SCHEDULES)
end

-- Takes a member out of the schedule of its topic. Returns whether it was there.
local function unschedule(topic, key, member)
  if try('ZREM', key, member) ~= 1 then return false end
  set_head(topic, key)
  return true
end

-- Whether dead letters are those of a member's own topic, or it has none. Elsewhere a member is a stray: the message of that
-- name is none of theirs.
local function is_at_home(dead, member)
  local topic = topic_of(member)
  return not topic or not is_topic(topic) or string.sub(dead, -#topic - 1) == ':' .. topic
end

-- How many attempts a count says are used up; nil where it is foreign.
local function used_in(count_)
  local n = tonumber(count_ or 0)
  if n and n >= 0 and n < math.huge then return n end
end

-- Uses up an attempt and returns how many are; a count that is foreign is as good as none left.
local function use_up(member)
  return try('HINCRBY', ATTEMPTS, member, 1) or math.huge
end

-- What scripts read of a record: its ttl and its limit of attempts, nil where one is missing or no such number, and whether
-- it is a broadcast.
local function line_of(record)
  local ok, line = pcall(cjson.decode, string.match(record or '', '^[^\n]*'))
  if not ok or type(line) ~= 'table' then return {} end
  local function number(value)
    if type(value) == 'number' and value >= 1 then return value end
  end
  return { ttl = number(line.ttl), attempts = number(line.attempts), broadcast = line.mode == 'broadcast' }
end

-- The records of members, in their order and false for one that is missing,
-- until BYTES are full; it may be fewer than members.
local function records_of(members)
  local records, size = {}, 0
  for from = 1, #members, 64 do
    local page = call('HMGET', MESSAGES, unpack(members, from, math.min(from + 63, #members)))
    for _, record in ipairs(page) do
      if size >= BYTES then return records end
      records[#records + 1] = record
      if record then size = size + #record end
    end
  end
  return records
end

-- A receipt is the end of a lease in us, and stands in LEASED. Its last digit is that of the attempts used up and of how often
-- messages of the topic were released or requeued: so no two leases in a row of a message have the same, however they end.
local function receipt_of(deadline, digit)
  return deadline - deadline % 10 + digit
end

-- The last digit of a count of attempts, 0 where that is missing or foreign.
local function digit_of(count_)
  return count_ and string.match(count_, '^%d-(%d)$') or 0
end

-- Which of members are leased under their receipts: the members, and the positions of the others.
local function held(members, receipts)
  local deadlines = call('ZMSCORE', LEASED, unpack(members))
  local mine, lost = {}, {}
  for i, deadline in ipairs(deadlines) do
    if deadline == receipts[i] then
      mine[#mine + 1] = members[i]
    else
      lost[#lost + 1] = i
    end
  end
  return mine, lost
end

-- Where a message expires while it is leased, the carrier puts its expiry off to the ms in which the lease has ended, less half
-- a millisecond: no other expiry has that, so it can be told whatever becomes of the lease.
local function put_off(receipt)
  return math.ceil(receipt / 1000) - 0.5
end

-- Whether a message has expired that is not leased.
local function has_expired(expiry, now)
  return expiry and (tonumber(expiry) <= now or expiry % 1 > 0)
end

-- Sees to the expiry of a message whose lease is given up: one that was put off is over now.
local function no_longer_leased(member, now)
  local expiry = try('ZSCORE', EXPIRIES, member)
  if has_expired(expiry, now) then try('ZADD', EXPIRIES, now, member) end
end

-- A position in the logs is a time in us that no other broadcast has, and that only grows. This is the last one that can be
-- counted exactly; what is beyond is foreign.
local LAST = 9007199254740991

-- A position as the id of an entry, MS-US: the time in ms, and the us within.
local function id_of(position)
  return string.format('%.0f-%.0f', math.floor(position / 1000), position % 1000)
end

-- The position of the last broadcast of all, 0 if there is none. LOGS_ is the sorted set of topics by that of their last one.
local function last_sent(logs_)
  local last = try('ZRANGE', logs_, text(LAST), 0, 'BYSCORE', 'REV', 'LIMIT', 0, 1, 'WITHSCORES')
  return math.floor((last or {})[2] or 0)
end

-- That of a topic, nil if there is none.
local function last_sent_to(logs_, topic)
  local last = tonumber(try('ZSCORE', logs_, topic) or nil)
  if last and last >= 0 and last <= LAST then return math.floor(last) end
end

-- Forgets messages altogether: their records last, so that a stop before leaves them whole.
local function forget(members)
  if call('EXISTS', ATTEMPTS) == 1 then try('HDEL', ATTEMPTS, unpack(members)) end
  if call('EXISTS', EXPIRIES) == 1 then try('ZREM', EXPIRIES, unpack(members)) end
  call('HDEL', MESSAGES, unpack(members))
end

-- Removes dead letters for good. The record of one that died because it had none is another message's, published since, and
-- that of a stray is none of theirs.
local function remove_dead(dead, members)
  local reasons = try('HMGET', DEATHS, unpack(members)) or {}
  local records, told = {}, {}
  for i, member in ipairs(members) do
    local own = is_at_home(dead, member)
    if own and reasons[i] ~= 'record is missing' then records[#records + 1] = member end
    if own or reasons[i] == STRAY then told[#told + 1] = member end
  end
  if #records > 0 then forget(records) end
  if #told > 0 then try('HDEL', DEATHS, unpack(told)) end
  call('ZREM', dead, unpack(members))
end

-- The topic that dead letters are of, by the name of their key; _ of what has none.
local function topic_of_dead(dead)
  return string.match(dead, '}:dead:(.*)$')
end

-- Takes note of when the oldest of some dead letters died, so that the housekeeping finds them when it is too old.
local function note_oldest(dead)
  local oldest = head_of(dead)
  if oldest then
    try('ZADD', DEATHS .. '-oldest', text(oldest), topic_of_dead(dead))
  else
    try('ZREM', DEATHS .. '-oldest', topic_of_dead(dead))
    try('ZREM', DEATHS .. '-newest', topic_of_dead(dead))
  end
end

-- Removes the oldest of some dead letters where they are more than are kept, but not the one that was added: two at the most, so
-- that they become fewer with each death. How many are kept the housekeeping wrote down, and it is told how many this removed.
local function keep_most(dead, added)
  local most = tonumber(try('HGET', DEATHS .. '-kept', 'most') or nil)
  local over = most and call('ZCARD', dead) - most or 0
  if over <= 0 then return end
  local gone = {}
  for _, member in ipairs(call('ZRANGE', dead, 0, math.min(over, 2) - 1)) do
    if member ~= added then gone[#gone + 1] = member end
  end
  if #gone == 0 then return end
  remove_dead(dead, gone)
  try('HINCRBY', DEATHS .. '-kept', 'removed', #gone)
end

-- Keeps a member among the dead letters of its topic, and tells programs of
-- other languages. The caller takes it out of where it was afterwards. False
-- where that cannot be: the key is foreign.
local function bury(dead, member, reason, attempts, now)
  if not try('ZADD', dead, now, member) then return false end
  try('ZADD', DEATHS .. '-oldest', 'LT', now, topic_of_dead(dead))
  try('ZADD', DEATHS .. '-newest', 'GT', now, topic_of_dead(dead))
  local topic, id = string.match(member, '^([^:]+):(.*)$')
  if is_at_home(dead, member) then
    try('HSET', DEATHS, member, reason)
    if topic and is_topic(topic) then
      count(topic, 'died', 1)
      count_all('died', 1)
    end
  else
    try('HSETNX', DEATHS, member, reason)
  end
  if topic then tell(PREFIX .. 'dead:' .. topic, cjson.encode({ id = id, reason = reason, attempts = attempts })) end
  keep_most(dead, member)
  return true
end
