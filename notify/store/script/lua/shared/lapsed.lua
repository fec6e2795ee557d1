-- Leases that ended: an attempt is used up, unless it was a hand-over that was not confirmed.

Lapsed.units = 1000 -- of its scores in a ms
Lapsed.goes_on = true

function Lapsed.key() return LEASED end

-- The settings of a topic that a lease's end depends on, read once a call.
local function limits_in(limits, topic)
  if not limits[topic] then
    local own, common = Settings.settings_of(topic)
    limits[topic] = { attempts = Settings.get('attempts', own, common), history = Settings.get('history', own, common), own = own }
  end
  return limits[topic]
end

-- Ends the lease of a member. Returns when it is due again, in ms; or nil, and how it dies, with its score if it is dropped.
local function end_lease(c, limits, member, score)
  local since, used, cause = tonumber(score), 0, 'lease expired'
  local record, due = call('HGET', MESSAGES, member), math.floor(since / 1000)
  local options, limit = Messages.options_of(record), limits_in(limits, topic_of(member) or '*')
  if since % 1 > 0 then
    c.lapsed = c.lapsed + 1
    due = Handover.due_before(member, record or '', math.floor(Leases.handed_at(since) / 1000))
  else
    cause = options.try and Fates.cause_of(member, since) or cause
    used = Attempts.note(1, member, try('HGET', ATTEMPTS, member), since, '', due, cause, limit.history, c.now)
  end
  if used < (options.attempts or limit.attempts) then return due end
  local score_of_dropped = options.fail == 'drop' and score or nil
  return nil, { member = member, reason = cause .. ', out of attempts', attempts = used < math.huge and used or 0, score = score_of_dropped }
end

-- Makes pairs of member and time ready. Those that cannot be are added to the dead.
local function make_ready_again(c, limits, again, dead)
  local topics = {}
  for i = 1, #again, 2 do
    local member, topic = again[i], topic_of(again[i])
    if topic and is_topic(topic) then
      local list = topics[topic] or {}
      topics[topic] = list
      list[#list + 1], list[#list + 2] = again[i + 1], member
    else
      dead[#dead + 1] = { member = member, reason = 'member without a topic', attempts = 0 }
    end
  end
  for topic, list in pairs(topics) do
    local members, least = {}, list[1] -- a hand-over that ended later may have begun earlier
    for i = 1, #list, 2 do
      members[#members + 1] = list[i + 1]
      least = math.min(least, list[i])
    end
    Limits.leave(topic, members, limits[topic].own)
    for _, member in ipairs(c.keyed and members or {}) do Seats.put_off(topic, member) end
    local fault = Move.make_ready(c, topic, list, least)
    for _, member in ipairs(fault and members or {}) do dead[#dead + 1] = { member = member, reason = fault, attempts = 0 } end
  end
end

local function drop(c, limits, one)
  Limits.leave(one.topic, { one.member }, limits[one.topic].own)
  Move.drop(c, function() Leases.take_leased({ one.member }) end, function() Leases.put_leased({ one.score, one.member }) end,
    one.topic, one.member, one.reason, one.attempts)
  Counters.count(one.topic, 'leased', -1)
end

-- Cancels those that were to be cancelled when their leases end. Returns the others, with their scores.
local function without_stopped(ended)
  if #ended == 0 or call('EXISTS', EXTRAS) == 0 then return ended end
  local members, score_of, others = {}, {}, {}
  for i = 1, #ended, 2 do
    members[#members + 1] = ended[i]
    score_of[ended[i]] = ended[i + 1]
  end
  local stopped, left = Extras.part_stopped(members)
  for _, member in ipairs(stopped) do Endings.cancel_leased(topic_of(member), { member }, { score_of[member] }) end
  for _, member in ipairs(left) do others[#others + 1], others[#others + 2] = member, score_of[member] end
  return others
end

-- Spares the hand-overs that no call found ended before. Returns the others, with their scores.
local function without_spared(c, ended)
  local others = {}
  for i = 1, #ended, 2 do
    local member, score = ended[i], tonumber(ended[i + 1])
    if score % 1 > 0 and not Leases.is_spared(score) then
      Leases.spare(member, score, c.us)
    else
      others[#others + 1], others[#others + 2] = member, ended[i + 1]
    end
  end
  return others
end

function Lapsed.carry(c)
  local ended = without_stopped(without_spared(c, Move.due_in(LEASED, text(c.us), c.slow)))
  local again, dead, limits = {}, {}, {}
  for i = 1, #ended, 2 do
    local due, death = end_lease(c, limits, ended[i], ended[i + 1])
    if death then
      dead[#dead + 1] = death
    else
      again[#again + 1], again[#again + 2] = ended[i], text(due)
    end
  end
  make_ready_again(c, limits, again, dead)
  local stay, drops, done = {}, {}, {}
  for _, one in ipairs(dead) do
    local topic = topic_of(one.member)
    one.topic = topic and is_topic(topic) and topic or nil
    if one.topic then Places.take_ready(topic, one.member) end -- where the claim was stopped half way
    if one.topic and one.score then
      stay[one.member], drops[#drops + 1] = true, one
    else
      stay[one.member] = not Move.bury(c, LEASED, Lapsed.units, one.topic, one.member, one.reason, one.attempts)
      if one.topic and not stay[one.member] then Limits.leave(one.topic, { one.member }, limits[one.topic].own) end
    end
  end
  for i = 1, #ended, 2 do
    if not stay[ended[i]] then done[#done + 1] = ended[i] end
  end
  if #done > 0 then Leases.take_leased(done) end
  Move.publish_heirs(c, function()
    for _, member in ipairs(done) do
      local topic = topic_of(member)
      if topic and is_topic(topic) then Counters.count(topic, 'leased', -1) end
    end
  end)
  for _, one in ipairs(drops) do drop(c, limits, one) end
end
