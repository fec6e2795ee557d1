-- Moves due messages and broadcasts, for the elected carrier only, and with a beat renews its lease.
-- ARGV: token, epoch, lease in ms, how many due members at the most, but for those of a whole scheduled set, how many broadcasts a log
--   keeps, and for how many ms, 1 with a beat, 1 with one that also looks at what changes slowly, and the cursor over the topics that have
--   something ready, for the beat; if the carrier keeps a history, with a beat the lengths in bytes of the rings of seconds and of minutes,
--   and if it has samples of the second before, for each ring the place of the sample, and the sample.
-- Reply: 0 if another has the lease, and its token, or '' if it ran out. Else 1, in how many us the next thing is due (-1: nothing is
--   scheduled), and now in us. Then by name what there is of: moved, how many members were; took, in how many us (not of a beat that moved
--   nothing); cursor for the next beat; kept, how many messages and broadcasts there are, if it looked; earliest, when the first of those
--   that were carried was due; runs, a list of due times, each with the number of scheduled messages of a topic that had it and were
--   made ready; repeated, for how many topics the beat repeated a ring; evicts, the policy that lets Redis evict messages, if it looked;
--   buried and dropped, lists of member, reason, attempts used up; handed, how many of those moved were handed over; lapsed, how many
--   hand-overs ended unconfirmed; taker, a list of the standby that could take over and how many shards it carries; totals, the list of
--   note_history.
local token, lease, beats, cursor = ARGV[1], ARGV[3], ARGV[7], ARGV[9]
local holder = call('GET', CARRIER)
if holder ~= token then return { 0, holder or '' } end
if beats == '1' then call('PEXPIRE', CARRIER, lease) end

local us, now = clock()
local handed = 0
local moved, buried, runs = 0, {}, {} -- runs: due times, each with the number of messages of a topic that had it
local earliest, repeated, kept, evicts = '', 0, -1, ''

-- How many units of a place's scores are in a ms.
local function unit(place)
  return place == LEASED and 1000 or 1
end

-- When the first in a place is due, in us.
local function next_in(place)
  local head = head_of(place)
  return head and head * (1000 / unit(place)) or math.huge
end

local function answer(next_due)
  local wait = -1
  if next_due < math.huge then wait = math.max(math.min(next_due, LAST) - us, 0) end -- a foreign time may be past what Go reads
  local reply = { 1, wait, us }
  local function add(name, value, is)
    if is then reply[#reply + 1], reply[#reply + 2] = name, value end
  end
  if moved > 0 or beats ~= '1' then add('took', clock() - us, true) end
  if moved > 0 then
    add('moved', moved, true)
    add('earliest', earliest, earliest ~= '')
    add('runs', runs, #runs > 0)
    add('handed', handed, handed > 0)
  end
  add('buried', buried, #buried > 0)
  add('dropped', buried.dropped, buried.dropped)
  add('lapsed', buried.lapsed, buried.lapsed)
  if beats == '1' then
    add('cursor', cursor, true)
    add('kept', kept, kept >= 0)
    add('repeated', repeated, repeated > 0)
    add('evicts', evicts, evicts ~= '')
    add('taker', buried.taker, buried.taker)
    add('totals', buried.history, buried.history)
  end
  return reply
end

-- Often nothing has a time to live, and nothing is broadcast: one look finds that.
local rare = beats == '1' and call('EXISTS', EXPIRIES, BROADCASTS, HANDED, READY, LOGS, TAKEN, OUTBOX) -- only beats read the last four
  or call('EXISTS', EXPIRIES, BROADCASTS, HANDED)
if beats == '1' and rare > 0 and (try('XLEN', OUTBOX) or 0) > 0 then tell(OUTBOX, '') end -- the archive may have missed a ring
local heads = { [LEASED] = next_in(LEASED), [SCHEDULED] = next_in(SCHEDULED) }
for _, place in ipairs({ EXPIRIES, BROADCASTS, HANDED }) do heads[place] = rare > 0 and next_in(place) or math.huge end
local first = math.min(heads[LEASED], heads[EXPIRIES], heads[SCHEDULED], heads[BROADCASTS], heads[HANDED])
if first > us and beats ~= '1' then return answer(first) end

-- Hands the only due message of a topic to a subscriber that waits. Returns whether it did.
local function hand_over(topic)
  local taker = is_topic(topic) and Handover.taker_of(topic)
  local due = taker and try('ZRANGE', scheduled_of(topic), '-inf', now, 'BYSCORE', 'LIMIT', 0, 2, 'WITHSCORES')
  if not due or #due ~= 2 or topic_of(due[1]) ~= topic then return false end
  local member, at = due[1], due[2]
  local record = call('HMGET', MESSAGES, member)[1]
  if not record or #record > Handover.LARGEST or Messages.is_marked(record) then return false end
  local value = (try('HMGET', ATTEMPTS, member) or {})[1]
  local used, lines = Leases.used_in(value), value and string.match(value, '\n.*$')
  if lines and #record + #lines > Handover.LARGEST then return false end
  if not used or heads[EXPIRIES] < math.huge and Leases.has_expired(try('ZSCORE', EXPIRIES, member), now) then return false end
  Handover.put_handed(taker, member, used, us)
  Places.take_scheduled(topic, member)
  moved = moved + 1
  runs[#runs + 1] = at
  runs[#runs + 1] = 1
  if Handover.send_handed(taker, topic, at, member, used, record, us, lines) then handed = handed + 1 end
  return true
end

-- In most calls one message is due. The first topics whose message is handed over need none of the functions below.
if heads[SCHEDULED] <= us and heads[LEASED] > us then -- what a lease gives back is older
  for _, topic in ipairs(call('ZRANGE', SCHEDULED, '-inf', now, 'BYSCORE', 'LIMIT', 0, 8)) do
    if not hand_over(topic) then break end
  end
  if moved > 0 then
    earliest, heads[SCHEDULED] = text(heads[SCHEDULED] / 1000), next_in(SCHEDULED)
    first = math.min(heads[LEASED], heads[EXPIRIES], heads[SCHEDULED], heads[BROADCASTS], heads[HANDED])
    if first > us and beats ~= '1' then return answer(first) end
  end
end

local BATCH = math.max(tonumber(ARGV[4]), 2) -- at least one for the topic furthest behind, and one for that least behind
local TOPICS_A_CALL = 2 * math.ceil(BATCH / 8) -- topics served in one call: each takes as long as some messages

-- Adds to runs how many of a list, pairs of time and member in the order of their times, have each time.
local function add_runs(list)
  local last
  if list[1] == list[#list - 1] then -- all have the same time
    last = list[1]
    runs[#runs + 1] = last
    runs[#runs + 1] = #list / 2
    return
  end
  for i = 1, #list, 2 do
    if list[i] ~= last then
      last = list[i]
      runs[#runs + 1] = last
      runs[#runs + 1] = 0
    end
    runs[#runs] = runs[#runs] + 1
  end
end

-- Makes all that is scheduled of a topic ready in one step, if it has one due time and nothing is ready yet: that takes as long for
-- many as for one. Members of one time are sorted by name, so if the first and the last are of the topic, all are. Returns whether it
-- did.
local function carry_whole(topic, key, n)
  local own, oldest, newest = topic .. ':', call('ZRANGE', key, 0, 0, 'WITHSCORES'), call('ZRANGE', key, -1, -1, 'WITHSCORES')
  local is_one_run = oldest[2] == newest[2] and string.sub(oldest[1], 1, #own) == own and string.sub(newest[1], 1, #own) == own
  if not is_one_run or call('EXISTS', ready_of(topic)) == 1 then return false end
  Places.put_all_ready(topic, oldest[2])
  Rings.ring(topic, n, us)
  moved = moved + n
  runs[#runs + 1] = oldest[2]
  runs[#runs + 1] = n
  return true
end

-- Carries what is due in the scheduled set of a topic, up to a limit; nothing if any of it is foreign, or the ready set is: that is for below.
local odd = {} -- topic and limit of those
local function carry_topic(topic, key, limit, all)
  if all > 1 and all == call('ZCARD', key) and carry_whole(topic, key, all) then return end
  local own = topic .. ':'
  local list = {}
  local due = try('ZRANGE', key, '-inf', now, 'BYSCORE', 'LIMIT', 0, limit, 'WITHSCORES') or { '' }
  for i = 1, #due, 2 do
    if string.sub(due[i], 1, #own) ~= own then
      list = {}
      break
    end
    list[i], list[i + 1] = due[i + 1], due[i]
  end
  if not list[1] or not Places.put_ready(topic, list, list[1]) then
    odd[#odd + 1] = { topic, limit }
    return
  end
  Rings.ring(topic, #list / 2, us)
  moved = moved + #list / 2
  add_runs(list)
  Places.take_first_scheduled(topic, #list / 2)
end

-- The topics that this call serves. If more have something due, half of these are those furthest behind, and half those least
-- behind, so that no backlog keeps another topic waiting, be it of few topics or of many.
local function due_topics()
  local topics = call('ZRANGE', SCHEDULED, '-inf', now, 'BYSCORE', 'LIMIT', 0, TOPICS_A_CALL)
  if #topics < TOPICS_A_CALL then return topics end
  local half = TOPICS_A_CALL / 2
  local newest = call('ZRANGE', SCHEDULED, now, '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, half)
  for i = 1, half do topics[half + i] = newest[i] end
  return topics
end

-- Carries what is due in the scheduled sets, oldest first in each. All topics have an equal share of the batch; what one does not need
-- goes to the others, first to those furthest behind.
local function carry_scheduled()
  local topics, sets, shares, wants, left = {}, {}, {}, {}, BATCH
  for _, topic in ipairs(due_topics()) do
    if is_topic(topic) then
      topics[#topics + 1] = topic
    else
      odd[#odd + 1] = { topic }
    end
  end
  for i, topic in ipairs(topics) do
    sets[i] = scheduled_of(topic)
    wants[i] = try('ZCOUNT', sets[i], '-inf', now) or 0
    shares[i] = math.min(wants[i], math.floor(BATCH / #topics))
    left = left - shares[i]
  end
  for i, topic in ipairs(topics) do
    local more = math.min(wants[i] - shares[i], left)
    left = left - more
    carry_topic(topic, sets[i], shares[i] + more, wants[i])
  end
end

-- If only scheduled sets have something due, the call needs no more than this. What a lease gives back is older, and what expired is not
-- carried: these come first.
local carried = heads[SCHEDULED] <= us and heads[LEASED] > us and heads[EXPIRIES] > us
if carried then
  if earliest == '' then earliest = text(heads[SCHEDULED] / 1000) end
  carry_scheduled()
  heads[SCHEDULED] = next_in(SCHEDULED)
  if #odd == 0 and heads[BROADCASTS] > us and heads[HANDED] > us and beats ~= '1' then
    return answer(math.min(heads[LEASED], heads[EXPIRIES], heads[SCHEDULED], heads[BROADCASTS], heads[HANDED]))
  end
end

local epoch, keep_count, keep_age, looks = ARGV[2], ARGV[5], ARGV[6], ARGV[8] -- here, since a function may use 60 outer locals
local SLOW = math.ceil(BATCH / 5) -- leases, and expiries, handled in one call: each takes longer than a message
local TOPICS_A_BEAT = 500 -- topics that a beat checks for a lost ring
local BYTES_OF_TOPICS = 4096 -- bytes of topics that a beat names
local LATER = 60000 -- ms until a member that can neither be carried nor buried is tried again
local CLAIM_TIME = 50000 -- us within which a subscriber that was rung claims
local LOGS_A_CALL = 50 -- topics whose broadcasts are sent in one call
local LATELY = 2500000 -- us for which beats name a log that has grown: two beats, since one may be lost
local AGE = tonumber(keep_age)

-- Buries a member of a topic, or of none. If its dead letters are foreign, makes it wait in its place. Returns whether it is buried:
-- only then, and only afterwards, the caller takes it out of that place. Returns nil if it can do neither, since the place is foreign,
-- too.
local counter_of = { [LEASED] = 'leased', [BROADCASTS] = 'broadcasts' }
local function bury_from(place, topic, member, reason, attempts)
  if not Dead.bury(topic or Dead.NOWHERE, member, reason, attempts, now) then
    if not Places.postpone(place, member, now + LATER, unit(place)) then return nil end
    if topic and counter_of[place] then Counters.count(topic, counter_of[place], 1) end
    return false
  end
  buried[#buried + 1] = member
  buried[#buried + 1] = reason
  buried[#buried + 1] = attempts
  return true
end

-- Takes messages, a list, out of their place and ends them. Finish takes those that ended off the list; if it fails with some left, back
-- undoes take.
local function end_from(take, back, left, finish)
  Leases.can_put_back()
  or_undo(function()
    if #left > 0 then back() end
  end, function()
    take()
    finish()
  end)
end

-- Drops a message of a topic.
local function drop_from(take, back, topic, member, reason, attempts)
  local left = { member }
  end_from(take, back, left, function() Endings.end_messages(left, 'dropped', reason, { used = attempts }) end)
  Endings.count_dropped(topic, 1)
  local dropped = buried.dropped or {}
  buried.dropped = dropped
  for _, value in ipairs({ member, reason, attempts }) do dropped[#dropped + 1] = value end
end

-- Groups pairs of member and time, as ZRANGE returns them, by topic, as pairs of time and member. Returns members without a topic as
-- a second list.
local function by_topic(found)
  local topics, foreign = {}, {}
  for i = 1, #found, 2 do
    local topic = topic_of(found[i])
    local list = topic and topics[topic]
    if not list and topic and is_topic(topic) then
      list = {}
      topics[topic] = list
    end
    if list then
      list[#list + 1] = found[i + 1]
      list[#list + 1] = found[i]
    else
      foreign[#foreign + 1] = found[i]
    end
  end
  return topics, foreign
end

-- Makes a list, pairs of time and member, ready. Least is the first of its times. Returns the reason if the ready set is foreign.
local function make_ready(topic, list, least)
  if not Places.put_ready(topic, list, least) then return 'ready set is foreign (WRONGTYPE)' end
  Rings.ring(topic, #list / 2, us)
  moved = moved + #list / 2
end

-- Leases messages whose successors cannot be published, for no time, so that they die again.
local function lease_heirs()
  for _, member in ipairs(current.heirs) do Leases.put_leased({ text(us), member }) end
  for _, member in ipairs(current.heirs) do Counters.count(topic_of(member), 'leased', 1) end
end

local function due_of(key, limit)
  return try('ZRANGE', key, '-inf', key == LEASED and text(us) or now, 'BYSCORE', 'LIMIT', 0, limit, 'WITHSCORES')
end

-- Carries what is due in the scheduled set of a topic, up to a limit, where something is foreign. A member is taken out only after it was put
-- elsewhere.
local function carry_odd(topic, limit)
  if not is_topic(topic) then
    if bury_from(SCHEDULED, nil, topic, 'member without a topic', 0) then Places.take_scheduled_topic(topic) end
    return
  end
  local own, key = topic .. ':', scheduled_of(topic)
  local due = due_of(key, limit)
  if not due then return Places.postpone_scheduled_topic(topic, now + LATER) end -- it is foreign
  local list, foreign = {}, {}
  for i = 1, #due, 2 do
    if string.sub(due[i], 1, #own) == own then
      list[#list + 1] = due[i + 1]
      list[#list + 1] = due[i]
    else
      foreign[#foreign + 1] = due[i]
    end
  end
  local fault = #list > 0 and make_ready(topic, list, list[1])
  if #list > 0 and not fault then add_runs(list) end
  local stay = 0 -- members that were postponed, so they are further behind
  for i = 2, fault and #list or 0, 2 do
    if not bury_from(key, topic, list[i], fault, 0) then stay = stay + 1 end
  end
  for _, member in ipairs(foreign) do
    if not bury_from(key, nil, member, STRAY, 0) then stay = stay + 1 end
  end
  Places.take_first_scheduled(topic, #due / 2 - stay)
end

-- Carries the scheduled sets, unless that was done above, and what is odd in them.
local function carry_rest()
  if not carried then carry_scheduled() end
  for _, one in ipairs(odd) do carry_odd(unpack(one)) end
end

local function used_by(member)
  return Leases.used_in(try('HGET', ATTEMPTS, member)) or 0
end

-- When a message was due whose hand-over, made at a time in ms, was not confirmed: as its record says, unless it was put off since, for
-- another attempt or by a snooze; what is due then is handed over at once.
local function due_before(member, record, made)
  local due = Messages.first_due_of(record)
  if not due or due > made or used_by(member) > 0 or Extras.extra(try('HGET', EXTRAS, member), 'snoozed') then return made end
  return due
end

-- Takes back leases that ended: an attempt is used up, unless it was a hand-over that was not confirmed.
local function carry_leases()
  local ended = due_of(LEASED, SLOW)
  local again, dead, limits = {}, {}, {}
  local function limits_in(topic)
    if not limits[topic] then
      local own, common = Settings.settings_of(topic)
      limits[topic] = { attempts = Settings.get('attempts', own, common), history = Settings.get('history', own, common) }
    end
    return limits[topic]
  end
  for i = 1, #ended, 2 do
    local member = ended[i]
    local since, used, cause = tonumber(ended[i + 1]), 0, 'lease expired'
    local record, due = call('HGET', MESSAGES, member), math.floor(since / 1000)
    local options, limit = Messages.options_of(record), limits_in(topic_of(member) or '*')
    if since % 1 > 0 then
      due, buried.lapsed = due_before(member, record or '', math.floor((since - UNCONFIRMED) / 1000)), (buried.lapsed or 0) + 1
    else
      cause = options.try and Fates.cause_of(member, since) or cause
      used = Attempts.use_up(member, try('HGET', ATTEMPTS, member), since, '', due, cause, limit.history, now)
    end
    if used >= (options.attempts or limit.attempts) then
      dead[#dead + 1] = { member, cause .. ', out of attempts', used, options.fail == 'drop' and ended[i + 1] }
    else
      again[#again + 1] = member
      again[#again + 1] = text(due)
    end
  end
  local topics, foreign = by_topic(again)
  for _, member in ipairs(foreign) do dead[#dead + 1] = { member, 'member without a topic', 0 } end
  for topic, list in pairs(topics) do
    local least = list[1] -- a hand-over that ended later may have begun earlier
    for i = 3, #list, 2 do least = math.min(least, list[i]) end
    local fault = make_ready(topic, list, least)
    for i = 2, fault and #list or 0, 2 do dead[#dead + 1] = { list[i], fault, 0 } end
  end
  local waits, done, drops, dropped = {}, {}, {}, {}
  for _, one in ipairs(dead) do
    local topic, attempts = topic_of(one[1]), one[3] < math.huge and one[3] or 0
    topic = topic and is_topic(topic) and topic
    if topic and one[4] then
      dropped[one[1]] = true
      drops[#drops + 1] = {
        function() Leases.take_leased({ one[1] }) end, function() Leases.put_leased({ one[4], one[1] }) end, topic, one[1], one[2], attempts,
      }
    else
      waits[one[1]] = not bury_from(LEASED, topic, one[1], one[2], attempts)
    end
  end
  for i = 1, #ended, 2 do
    if not waits[ended[i]] and not dropped[ended[i]] then done[#done + 1] = ended[i] end
  end
  if #done > 0 then Leases.take_leased(done) end
  or_undo(lease_heirs, function()
    for i = 1, #ended, 2 do
      local topic = topic_of(ended[i])
      if topic and is_topic(topic) and not dropped[ended[i]] then Counters.count(topic, 'leased', -1) end
    end
    if #current.heirs > 0 then Endings.publish_heirs(us, now) end
  end)
  for _, one in ipairs(drops) do
    drop_from(unpack(one))
    Counters.count(one[3], 'leased', -1)
  end
end

-- Buries or drops a message that has expired while it was scheduled or ready.
local function expire(topic, member)
  local scheduled, ready = scheduled_of(topic), ready_of(topic)
  local due, since = try('ZSCORE', scheduled, member), nil
  if not due then since = try('ZSCORE', ready, member) end
  local function take()
    if due then Places.take_scheduled(topic, member) else Places.take_ready(topic, member) end
  end
  local function back()
    if due then Places.put_scheduled(topic, { due, member }, due) else Places.put_ready(topic, { since, member }, since) end
  end
  if not due and not since then
    call('ZREM', EXPIRIES, member)
  elseif Messages.options_of(call('HGET', MESSAGES, member)).fail == 'drop' then
    drop_from(take, back, topic, member, 'expired', used_by(member))
  else
    local was_buried = bury_from(scheduled, topic, member, 'expired', used_by(member))
    if was_buried then
      end_from(take, back, current.heirs, function() Endings.publish_heirs(us, now) end)
    elseif due or was_buried == false then
      Places.index_scheduled(topic)
      if not due then Places.take_ready(topic, member) end -- it was postponed into the scheduled set
    else
      Places.index_ready(topic)
    end
  end
end

-- Buries or drops messages that outlived their time to live. A leased one may still be acknowledged: it is checked again when the lease ends.
local function carry_expiries()
  local ended = due_of(EXPIRIES, SLOW)
  for i = 1, #ended, 2 do
    local member = ended[i]
    local topic = topic_of(member)
    local lease_end = call('ZSCORE', LEASED, member)
    if not topic or not is_topic(topic) then
      call('ZREM', EXPIRIES, member)
    elseif lease_end then
      call('ZADD', EXPIRIES, Leases.put_off(lease_end), member)
    else
      expire(topic, member)
    end
  end
end

-- Appends a broadcast to a log at a position, or behind the log's last entry if that is ahead, as after the clock was set back and
-- the key logs was lost, or with a foreign entry. Returns the position, or nil and the reason if the log is foreign.
local function append(log, position, ...)
  for _ = 1, 2 do
    local added = redis.pcall('XADD', log, 'MAXLEN', '~', keep_count, Logs.id_of(position), ...)
    if type(added) ~= 'table' or not added.err then return position end
    if string.find(added.err, 'WRONGTYPE', 1, true) then return nil, 'log is foreign (WRONGTYPE)' end
    if not string.find(added.err, 'equal or smaller', 1, true) and not string.find(added.err, 'exhausted', 1, true) then
      error(added.err, 0)
    end
    position = Logs.last_in(log) + 1
    if position > LAST then break end
  end
  return nil, 'log is foreign: its last entry is past all positions'
end

-- A bell: behind since only the logs of topics have grown, and none behind the last position.
local function bell_of(since, last, topics)
  return table.concat({ Logs.id_of(since), Logs.id_of(last), unpack(topics) }, ',')
end

-- Publishes the bell of logs that have grown. It names all of them, so that a listener to several topics can read them in one order.
local function ring_logs(topics, since, last)
  local bell = bell_of(since, last, topics)
  for _, topic in ipairs(topics) do tell(log_of(topic), bell) end
  tell(LOGS, bell)
end

-- Sends due broadcasts: appends them to the log of their topic, and publishes them. An entry names the position of the one before
-- it, so that a listener sees whether any in between were trimmed. Those whose time to live is over are dropped instead.
local function carry_broadcasts()
  local due = due_of(BROADCASTS, BATCH)
  local members = {}
  for i = 1, #due, 2 do members[#members + 1] = due[i] end
  local since = Logs.last_sent()
  local position = math.max(us, since + 1)
  local topics, sent, last = {}, {}, {}
  local gone, lost, over, done = {}, {}, {}, 0
  local taken = {} -- for how many ms the ids of some stay taken
  for i, record in ipairs(Messages.records_of(members)) do
    local member = members[i]
    local topic = topic_of(member)
    local options = record and Messages.is_marked(record) and Messages.options_of(record)
    local fault
    if not topic or not is_topic(topic) then
      topic, fault = nil, 'member without a topic'
    elseif not record then
      fault = NO_RECORD
    elseif options and options.ttl and due[2 * i] + options.ttl <= now then -- its time to live counts from its due time
      taken[member] = options.unique
      over[topic] = over[topic] or {}
      table.insert(over[topic], member)
    elseif not sent[topic] and #topics == LOGS_A_CALL then
      break
    else
      local log = log_of(topic)
      if not sent[topic] then
        try('XTRIM', log, 'MINID', '~', text(now - AGE)) -- first, so that nothing is sent if this is refused
        last[topic] = Logs.last_sent_to(topic) or Logs.last_in(log)
      end
      local at
      at, fault = append(log, position, 'id', string.sub(member, #topic + 2), 'due', due[2 * i], 'prev', Logs.id_of(last[topic]),
        'record', record)
      if at then
        local announce = SHARDED and tell_heard or tell
        announce(broadcast_of(topic), string.sub(record, (string.find(record, '\n', 1, true) or 0) + 1))
        if not sent[topic] then topics[#topics + 1] = topic end
        sent[topic] = (sent[topic] or 0) + 1
        last[topic], position = at, at + 1
        gone[#gone + 1] = member
        if options then taken[member] = options.unique end
      end
    end
    done = i
    if fault then lost[#lost + 1] = { member, topic, fault } end
  end
  local kept_extras = call('EXISTS', EXTRAS) == 1
  Counters.count_all('sent', #gone)
  for topic, n in pairs(sent) do
    try('ZADD', LOGS, text(last[topic]), topic)
    Counters.count(topic, 'broadcasts', -n)
    Counters.count(topic, 'sent', n)
  end
  moved = moved + #gone
  if #gone > 0 then
    if kept_extras then
      Ends.note_ends(gone, 'sent', nil, now)
      try('HDEL', EXTRAS, unpack(gone))
    end
    call('HDEL', MESSAGES, unpack(gone))
  end
  for topic, list in pairs(over) do
    Counters.count(topic, 'broadcasts', -#list)
    if kept_extras then Ends.note_ends(list, 'dropped', 'expired', now, nil, { used = 0 }) end
    Messages.forget(list)
    Endings.count_dropped(topic, #list)
  end
  for member, unique in pairs(taken) do Endings.keep_taken(member, unique, us) end
  for _, one in ipairs(lost) do
    if one[2] then Counters.count(one[2], 'broadcasts', -1) end
    if not bury_from(BROADCASTS, one[2], one[1], one[3], 0) then
      done = done - 1 -- it was postponed, so it is further behind
    end
  end
  Places.take_first_broadcasts(done)
  if #topics > 0 then ring_logs(topics, since, position - 1) end
end

-- Tells named listeners that a process of theirs may have died, since leases have ended. Another process of that name takes the
-- broadcasts; if none listens, the next one that begins does.
local function carry_handed()
  local ended = due_of(HANDED, SLOW)
  for i = 1, #ended, 2 do
    if tell(name_of(ended[i]), '') == 0 then
      call('ZREM', HANDED, ended[i])
    else
      call('ZADD', HANDED, now + 1000, ended[i]) -- told again then, if that was lost
    end
  end
end

-- Whether a subscriber was rung a while ago and has not claimed since: the ring was lost, or the subscriber hangs. One that was handed
-- a message says nothing, since it may be busy with that: a hand-over that was lost counts when it lapses.
local function lost_ring(waiting)
  local rung = (try('ZRANGE', waiting, text(Rings.RUNG), '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES') or {})[2]
  return rung and us - (rung - Rings.RUNG) > CLAIM_TIME
end

-- The bell of a beat repeats bells that may have been lost. It names the logs that have grown lately, if they are few, so that
-- listeners to other topics need not read.
local function bell_of_beat()
  local latest = rare > 0 and try('ZRANGE', LOGS, text(LAST), 0, 'BYSCORE', 'REV', 'LIMIT', 0, LOGS_A_CALL + 1, 'WITHSCORES') or {}
  local since, topics = 0, {}
  for i = 1, #latest, 2 do
    local position = math.floor(latest[i + 1])
    if position <= us - LATELY or i > 2 * LOGS_A_CALL then
      since = position
      break
    end
    if is_topic(latest[i]) then topics[#topics + 1] = latest[i] end
  end
  return bell_of(since, math.floor(latest[2] or 0), topics)
end

-- Sends the beat. If a topic has both ready messages and waiting subscribers a ring may have been lost: it is repeated. If its
-- waiting list is empty, the list may have been lost: the beat names the topic. Programs of any language are told again in either
-- case. Paused topics are left out.
local function beat()
  local page = rare > 0 and try('ZSCAN', READY, cursor, 'COUNT', TOPICS_A_BEAT) or { '0', {} }
  local fields, size = { epoch, text(now), string.match(STORE, '%S+$'), bell_of_beat() }, 0
  for i = 1, #page[2], 2 do
    local topic = page[2][i]
    local ready = try('ZCARD', ready_of(topic))
    if ready == 0 then
      Places.index_ready(topic)
    elseif ready then
      local waiting = waiting_of(topic)
      if (try('ZCARD', waiting) or 0) > 0 then
        if lost_ring(waiting) and not Settings.paused(topic) then repeated = repeated + 1 end
        Rings.ring(topic, ready, us)
      elseif not Settings.paused(topic) then
        if SHARDED then tell_heard(WAKES, topic .. ' ' .. ready) else tell(wake_of(topic), ready) end
        if size + #topic < BYTES_OF_TOPICS then
          fields[#fields + 1] = topic
          size = size + #topic
        end
      end
    end
  end
  tell(BEAT, table.concat(fields, ' '))
  return page[1]
end

-- Carries what is due in a place, and returns when the next thing in it is due, in us.
local changed = false
local function carry(place, carry_due)
  local may_differ = changed and (place == EXPIRIES or place == SCHEDULED or place == BROADCASTS and #buried > 0) -- carrying another changes it
  if may_differ then heads[place] = next_in(place) end
  local head = heads[place]
  if head > us then return head end
  changed = true
  if (place == SCHEDULED or place == BROADCASTS) and (earliest == '' or head / 1000 < tonumber(earliest)) then
    earliest = text(head / 1000)
  end
  carry_due()
  if #current.heirs > 0 then or_undo(lease_heirs, Endings.publish_heirs, us, now) end
  return next_in(place)
end

first = math.min(carry(LEASED, carry_leases), carry(EXPIRIES, carry_expiries), carry(SCHEDULED, carry_rest),
  carry(BROADCASTS, carry_broadcasts), carry(HANDED, carry_handed))
if beats == '1' then
  if looks == '1' then
    evicts = Memory.memory_of_redis().evicts or ''
    kept = (try('HLEN', MESSAGES) or 0) - (rare > 0 and try('ZCARD', TAKEN) or 0)
  end
  cursor = beat()
  if SHARDED then buried.taker = Standbys.taker_of_shard(tonumber(ARGV[3]), now) end
  if ARGV[10] then buried.history = History.note_history() end
end
return answer(first)
