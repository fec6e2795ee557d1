-- Scheduled messages that are due: they are handed over or become ready.

Due.units = 1
Due.is_timed = true
Due.goes_on = true

function Due.key() return SCHEDULED end

function Due.may_differ(c) return c.changed end

-- Adds to the runs of a call.
local function add_run(c, due, n)
  c.runs[#c.runs + 1], c.runs[#c.runs + 2] = due, n
end

-- Whether what is due of a topic waits until its schedules are settled.
local function is_held(c, topic)
  return c.settle and call('EXISTS', rules_of(topic)) == 1
end

-- Hands the only due message of a topic to a subscriber that waits. Returns whether it did.
local function hand_over(c, topic)
  local taker = is_topic(topic) and not (c.keyed and Seats.are_in(topic)) and Handover.taker_of(topic)
  local due = taker and Move.due_in(scheduled_of(topic), c.now, 2)
  if not due or #due ~= 2 or topic_of(due[1]) ~= topic then return false end
  local member, at = due[1], due[2]
  local record = call('HMGET', MESSAGES, member)[1]
  if not record or #record > Handover.LARGEST or Messages.is_marked(record) then return false end
  local value = (try('HMGET', ATTEMPTS, member) or {})[1]
  local used, lines = Leases.used_in(value), value and string.match(value, '\n.*$')
  if lines and #record + #lines > Handover.LARGEST then return false end
  if not used or c.heads[Expired] < math.huge and Leases.has_expired(try('ZSCORE', EXPIRIES, member), c.now) then return false end
  Handover.put_handed(taker, member, used, c.us)
  Places.take_scheduled(topic, member)
  c.moved = c.moved + 1
  add_run(c, at, 1)
  if Handover.send_handed(taker, topic, unscaled(at), member, used, record, c.us, lines) then c.handed = c.handed + 1 end
  return true
end

-- Hands over the first topics' only due messages. Returns whether nothing else is due: in most calls one message is.
local function hand_over_all(c)
  local FIRST = 8
  local topics = call('ZRANGE', SCHEDULED, '-inf', c.now, 'BYSCORE', 'LIMIT', 0, FIRST)
  for _, topic in ipairs(topics) do
    if is_held(c, topic) or not hand_over(c, topic) then return false end
  end
  return #topics < FIRST
end

-- Adds to the runs how many of a list, pairs of time and member in the order of their times, have each time.
local function add_runs(c, list)
  if list[1] == list[#list - 1] then return add_run(c, list[1], #list / 2) end
  local last
  for i = 1, #list, 2 do
    if list[i] ~= last then
      last = list[i]
      add_run(c, last, 0)
    end
    c.runs[#c.runs] = c.runs[#c.runs] + 1
  end
end

-- Makes all that is scheduled of a topic ready in one step, if it has one due time, and nothing is ready yet or has a key: that takes as long for
-- many as for one. Members of one time are sorted by name, so if the first and the last are of the topic, all are. Returns whether it
-- did.
local function carry_whole(c, topic, key, n)
  local own, oldest, newest = topic .. ':', call('ZRANGE', key, 0, 0, 'WITHSCORES'), call('ZRANGE', key, -1, -1, 'WITHSCORES')
  local is_one_run = oldest[2] == newest[2] and string.sub(oldest[1], 1, #own) == own and string.sub(newest[1], 1, #own) == own
  if not is_one_run or call('EXISTS', ready_of(topic), keys_of(topic)) > 0 then return false end
  Places.put_all_ready(topic, oldest[2])
  Rings.ring(topic, n, c.us)
  c.moved = c.moved + n
  add_run(c, oldest[2], n)
  return true
end

-- Carries what is due in the scheduled set of a topic, up to a limit, where something is foreign. A member is taken out only after it was
-- put elsewhere.
local function carry_odd(c, topic, limit)
  if not is_topic(topic) then
    if Move.bury(c, SCHEDULED, 1, nil, topic, 'member without a topic', 0) then Places.take_scheduled_topic(topic) end
    return
  end
  local own, key = topic .. ':', scheduled_of(topic)
  local due = Move.due_in(key, c.now, limit)
  if not due then return Places.postpone_scheduled_topic(topic, c.now + Move.LATER) end -- it is foreign
  local list, foreign = {}, {}
  for i = 1, #due, 2 do
    if string.sub(due[i], 1, #own) == own then
      list[#list + 1], list[#list + 2] = due[i + 1], due[i]
    else
      foreign[#foreign + 1] = due[i]
    end
  end
  local fault = #list > 0 and Move.make_ready(c, topic, list, list[1])
  if #list > 0 and not fault then add_runs(c, list) end
  local stay = 0 -- members that were postponed, so they are further behind
  for i = 2, fault and #list or 0, 2 do
    if not Move.bury(c, key, 1, topic, list[i], fault, 0) then stay = stay + 1 end
  end
  for _, member in ipairs(foreign) do
    if not Move.bury(c, key, 1, nil, member, STRAY, 0) then stay = stay + 1 end
  end
  Places.take_first_scheduled(topic, #due / 2 - stay)
end

-- Carries what is due in the scheduled set of a topic, up to a limit, and fewer if they have keys, since these take longer. Wanted is how much
-- is due.
local function carry_topic(c, topic, key, limit, wanted)
  if c.keyed and limit > c.slow and Seats.are_in(topic) then limit = c.slow end
  if wanted > 1 and wanted == call('ZCARD', key) and carry_whole(c, topic, key, wanted) then return end
  local own, list = topic .. ':', {}
  local due = Move.due_in(key, c.now, limit) or { '' }
  for i = 1, #due, 2 do
    if string.sub(due[i], 1, #own) ~= own then return carry_odd(c, topic, limit) end
    list[i], list[i + 1] = due[i + 1], due[i]
  end
  if not list[1] or Move.make_ready(c, topic, list, list[1]) then return carry_odd(c, topic, limit) end
  add_runs(c, list)
  Places.take_first_scheduled(topic, #list / 2)
end

-- The topics that a call serves. If more have something due, half of these are those furthest behind, and half those least behind, so
-- that no backlog keeps another topic waiting, be it of few topics or of many.
local function due_topics(c)
  local most = 2 * math.ceil(c.batch / 8) -- each takes as long as some messages
  local topics = call('ZRANGE', SCHEDULED, '-inf', c.now, 'BYSCORE', 'LIMIT', 0, most)
  if #topics < most then return topics end
  local half = most / 2
  local newest = call('ZRANGE', SCHEDULED, c.now, '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, half)
  for i = 1, half do topics[half + i] = newest[i] end
  return topics
end

-- Carries what is due in the scheduled sets, oldest first in each. All topics have an equal share of the batch; what one does not need
-- goes to the others, first to those furthest behind.
function Due.carry(c)
  if c.heads[Lapsed] > c.us and hand_over_all(c) then return end -- what a lease gives back is older
  local topics, sets, shares, wants, left = {}, {}, {}, {}, c.batch
  for _, topic in ipairs(due_topics(c)) do
    if not is_topic(topic) then
      carry_odd(c, topic)
    elseif not is_held(c, topic) then
      topics[#topics + 1] = topic
    end
  end
  for i, topic in ipairs(topics) do
    sets[i] = scheduled_of(topic)
    wants[i] = try('ZCOUNT', sets[i], '-inf', c.now) or 0
    shares[i] = math.min(wants[i], math.floor(c.batch / #topics))
    left = left - shares[i]
  end
  for i, topic in ipairs(topics) do
    local more = math.min(wants[i] - shares[i], left)
    left = left - more
    carry_topic(c, topic, sets[i], shares[i] + more, wants[i])
  end
end
