-- Broadcasts that are due: they are appended to the log of their topic, and published. An entry names the position of the one before it,
-- so that a listener sees whether any in between were trimmed. Those whose time to live is over are dropped instead.

Broadcasts.units = 1
Broadcasts.is_rare = true
Broadcasts.is_timed = true
Broadcasts.LOGS_A_CALL = 50 -- topics whose broadcasts are sent in one call

function Broadcasts.key() return BROADCASTS end

function Broadcasts.may_differ(c) return c.changed and #c.buried > 0 end

-- Appends a broadcast to a log at a position, or behind the log's last entry if that is ahead, as after the clock was set back and
-- the key logs was lost, or with a foreign entry. Returns the position, or nil and the reason if the log is foreign.
local function append(c, log, position, ...)
  for _ = 1, 2 do
    local added = redis.pcall('XADD', log, 'MAXLEN', '~', c.keep_count, Logs.id_of(position), ...)
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
function Broadcasts.bell_of(since, last, topics)
  return table.concat({ Logs.id_of(since), Logs.id_of(last), unpack(topics) }, ',')
end

-- Publishes the bell of logs that have grown. It names all of them, so that a listener to several topics can read them in one order.
local function ring_logs(topics, since, last)
  local bell = Broadcasts.bell_of(since, last, topics)
  for _, topic in ipairs(topics) do tell(log_of(topic), bell) end
  tell(LOGS, bell)
end

-- Sends a broadcast of a topic that is due. Returns the reason if the log is foreign.
local function send(c, b, topic, member, due, record)
  local log = log_of(topic)
  if not b.sent[topic] then
    try('XTRIM', log, 'MINID', '~', text(c.now - c.keep_age)) -- first, so that nothing is sent if this is refused
    b.last[topic] = Logs.last_sent_to(topic) or Logs.last_in(log)
  end
  local at, fault = append(c, log, b.position, 'id', string.sub(member, #topic + 2), 'due', unscaled(due), 'prev', Logs.id_of(b.last[topic]),
    'record', record)
  if not at then return fault end
  local announce = SHARDED and tell_heard or tell
  announce(broadcast_of(topic), string.sub(record, (string.find(record, '\n', 1, true) or 0) + 1))
  if not b.sent[topic] then b.topics[#b.topics + 1] = topic end
  b.sent[topic] = (b.sent[topic] or 0) + 1
  b.last[topic], b.position = at, at + 1
  b.gone[#b.gone + 1] = member
end

-- Sends what is due of a list of members and due times, or notes what becomes of it. Returns how many it looked at, and those that are to
-- be buried.
local function send_all(c, b, due, members)
  local lost, done = {}, 0
  for i, record in ipairs(Messages.records_of(members)) do
    local member, topic, fault = members[i], topic_of(members[i]), nil
    local options = record and Messages.is_marked(record) and Messages.options_of(record) or {}
    if not topic or not is_topic(topic) then
      topic, fault = nil, 'member without a topic'
    elseif not record then
      fault = NO_RECORD
    elseif options.ttl and due[2 * i] + options.ttl <= c.now then -- its time to live counts from its due time
      b.taken[member] = options.unique
      b.over[topic] = b.over[topic] or {}
      table.insert(b.over[topic], member)
    elseif not b.sent[topic] and #b.topics == Broadcasts.LOGS_A_CALL then
      break
    else
      fault = send(c, b, topic, member, due[2 * i], record)
      if not fault then b.taken[member] = options.unique end
    end
    done = i
    if fault then lost[#lost + 1] = { member = member, topic = topic, reason = fault } end
  end
  return done, lost
end

-- Forgets what was sent or is over, and counts it.
local function conclude(c, b)
  local kept_extras = call('EXISTS', EXTRAS) == 1
  Counters.count_all('sent', #b.gone)
  for topic, n in pairs(b.sent) do
    try('ZADD', LOGS, text(b.last[topic]), topic)
    Counters.count(topic, 'broadcasts', -n)
    Counters.count(topic, 'sent', n)
  end
  c.moved = c.moved + #b.gone
  if #b.gone > 0 then
    if kept_extras then
      Ends.note_ends(b.gone, 'sent', nil, c.now)
      try('HDEL', EXTRAS, unpack(b.gone))
    end
    call('HDEL', MESSAGES, unpack(b.gone))
  end
  for topic, list in pairs(b.over) do
    Counters.count(topic, 'broadcasts', -#list)
    if kept_extras then Ends.note_ends(list, 'dropped', 'expired', c.now, nil, { used = 0 }) end
    Messages.forget(list)
    Endings.count_dropped(topic, #list)
  end
  for member, unique in pairs(b.taken) do Endings.keep_taken(member, unique, c.us) end
end

function Broadcasts.carry(c)
  local due, members = Move.due_in(BROADCASTS, c.now, c.batch), {}
  for i = 1, #due, 2 do members[#members + 1] = due[i] end
  local since = Logs.last_sent()
  local b = {
    position = math.max(c.us, since + 1), topics = {}, sent = {}, last = {}, -- of each topic how many were sent, and the last position
    gone = {}, over = {}, taken = {}, -- those sent, those over by topic, and for how many ms the ids of some stay taken
  }
  local done, lost = send_all(c, b, due, members)
  conclude(c, b)
  local postponed = {}
  for _, one in ipairs(lost) do
    if not Move.bury(c, BROADCASTS, 1, one.topic, one.member, one.reason, 0) then
      postponed[one.member] = true
    elseif one.topic then
      Counters.count(one.topic, 'broadcasts', -1)
    end
  end
  if lost[1] then -- a death may have its own broadcast in front of them by now
    for i = 1, done do
      if not postponed[members[i]] then call('ZREM', BROADCASTS, members[i]) end
    end
  else
    Places.take_first_broadcasts(done)
  end
  if #b.topics > 0 then ring_logs(b.topics, since, b.position - 1) end
end
