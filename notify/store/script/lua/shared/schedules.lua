-- Schedules: each makes occurrences, ordinary messages, ahead of their times. This module knows no calendar: the elected carrier's process
-- computes the times, and `fill` publishes them.
--
-- rules_of has what was put: JSON of the rule, a newline, and the record of an occurrence without its times. schedules_of has the state, NAME=NUMBER
-- of each of NUMBERS with a space in front, a newline, and the occurrences that were made last, SECONDS,DUE,AT of each with a space in front:
-- its time in Unix seconds, when its message is due, and when that was made, in ms; AT is 0 if the id was in use.
--
-- The cursor is the time of the last occurrence that is settled, in seconds: nothing at or before it is made any more. Cursor and revision
-- are the fence of `fill`, beside the lease. A revision is never the same twice, since all schedules of a shard count on from one number.
--
-- SCHEDULES has when the carrier is to look at each: the time at which it has to be filled, or at which its first occurrence is due. The first of
-- all is the carrier's alarm, an entry of ALARMS, so that nothing is asked at rest.

local ALARM = '/' -- in ALARMS: the entries of topics have more behind it
local NUMBERS = { 'revision', 'cursor', 'fell', 'made', 'missed', 'taken', 'paused', 'refused', 'unread' }
local KEPT_OCCURRENCES = 64
local AGAIN = 60000 -- ms until one that cannot be filled is tried again

function Schedules.foreign(topic)
  return redis.error_reply('the schedules of ' .. topic .. ' are foreign: ' .. schedules_of(topic) .. ', ' .. rules_of(topic))
end

function Schedules.is_alarm(entry)
  return entry == ALARM
end

-- What was put, without what is published.
function Schedules.bare(rule)
  return string.match(rule, '^[^\n]*') .. '\n0\n'
end

-- Reads the state of a schedule: fell is the last time of an occurrence that fell due, made how many were made and not withdrawn, missed how
-- many never were, taken how many had an id that was in use, paused since when, in ms, refused since when its next cannot be made, and unread since when
-- the carrier cannot read it. Returns nil if there is none.
function Schedules.read(topic, name)
  local state = try('HGET', schedules_of(topic), name)
  if not state then return nil end
  local line, rest = string.match(state, '^([^\n]*)\n?(.*)$')
  local s = { topic = topic, name = name, occurrences = {} }
  for _, number in ipairs(NUMBERS) do s[number] = tonumber(string.match(line, ' ' .. number .. '=(%d+)') or 0) end
  for time, due, at in string.gmatch(rest, ' (%d+),(%d+),(%d+)') do
    table.insert(s.occurrences, { time = tonumber(time), due = tonumber(due), at = tonumber(at) })
  end
  return s
end

-- The state of a new schedule.
function Schedules.new(topic, name)
  local s = { topic = topic, name = name, occurrences = {} }
  for _, number in ipairs(NUMBERS) do s[number] = 0 end
  return s
end

-- Writes the state of a schedule.
function Schedules.write(s)
  local parts = {}
  for _, number in ipairs(NUMBERS) do parts[#parts + 1] = ' ' .. number .. '=' .. text(s[number]) end
  parts[#parts + 1] = '\n'
  for i = math.max(#s.occurrences - KEPT_OCCURRENCES, 0) + 1, #s.occurrences do
    local one = s.occurrences[i]
    parts[#parts + 1] = ' ' .. text(one.time) .. ',' .. text(one.due) .. ',' .. text(one.at)
  end
  call('HSET', schedules_of(s.topic), s.name, table.concat(parts))
end

-- Gives a schedule a revision that none had before.
function Schedules.revise(s)
  s.revision = call('HINCRBY', TOPICS, '*:schedules', 1)
end

-- The name that an occurrence has in a topic, by its time in seconds.
local function member_of(s, time)
  return s.topic .. ':' .. s.name .. '~' .. string.gsub(Ends.rfc3339(time * 1000), '%.000Z$', 'Z')
end

-- When the message of an occurrence is due, in ms, if it waits for that: nobody cancelled it, and it is not carried yet.
local function due_of(topic, member)
  return tonumber(try('ZSCORE', scheduled_of(topic), member) or try('ZSCORE', BROADCASTS, member) or nil)
end

-- Whether the message of an occurrence waits as it was made: nobody cancelled, moved or replaced it, and it is not carried yet.
function Schedules.waits(s, one)
  local member = member_of(s, one.time)
  if due_of(s.topic, member) ~= one.due or one.at == 0 then return false end
  local head = string.match(call('HGET', MESSAGES, member) or '', '^[^\n]*')
  return Messages.published_of(head) == one.at and string.find(head, '"' .. HEADER_SCHEDULE .. '":', 1, true) ~= nil
end

-- The state of a schedule as it is shown: of what was made ahead, and was cancelled or moved since, AT has a - behind it. Behind the first of so many
-- that wait for their times, nothing is looked at.
function Schedules.shown(topic, name, state, now, most)
  local s = { topic = topic, name = name }
  local line, made = string.match(state, '^([^\n]*)\n?(.*)$')
  return line .. '\n' .. string.gsub(made, ' (%d+),(%d+),(%d+)', function(time, due, at)
    if most == 0 or tonumber(time) * 1000 <= now then return nil end
    if due_of(topic, member_of(s, tonumber(time))) ~= tonumber(due) then return ' ' .. time .. ',' .. due .. ',' .. at .. '-' end
    most = most - 1
    return nil
  end)
end

local function forget(s, member)
  if call('EXISTS', EXTRAS) == 1 then Ends.note_ends({ member }, 'cancelled') end
  if Messages.forget_from(scheduled_of(s.topic), member) then
    Places.index_scheduled(s.topic)
  elseif Messages.forget_from(BROADCASTS, member) then
    Counters.count(s.topic, 'broadcasts', -1)
  end
end

-- Takes those occurrences back that wait as they were made, and are chosen. Those that are not taken back stay noted, so that they are never made
-- again. It writes the state first: a message that it leaves, if it stops half way, is not made twice.
function Schedules.withdraw(s, chosen)
  local left, members = {}, {}
  for _, one in ipairs(s.occurrences) do
    if chosen(one) and Schedules.waits(s, one) then members[#members + 1] = member_of(s, one.time) else left[#left + 1] = one end
  end
  s.occurrences, s.made = left, math.max(s.made - #members, 0)
  Schedules.write(s)
  for _, member in ipairs(members) do forget(s, member) end
end

local function fields_of(rule) return cjson.decode(string.match(rule, '^[^\n]*')) end

local function times_of(rule)
  rule = fields_of(rule)
  local parts = { table.concat(rule.at or {}, ' ') }
  for _, field in ipairs({ 'cron', 'every', 'zone', 'from', 'until' }) do parts[#parts + 1] = rule[field] or '' end
  return table.concat(parts, '\n')
end

-- Whether a rule has the same times as the one before, of which nothing is known if it cannot be read.
function Schedules.have_same_times(before, rule)
  local is_read, times = pcall(times_of, before)
  return is_read and times == times_of(rule)
end

-- Whether a schedule has made as many as a rule allows: what is past since then is none of its times.
function Schedules.has_made_all(s, rule)
  local is_read, fields = pcall(fields_of, rule)
  return is_read and fields.count and s.made >= fields.count
end

-- Takes back what was made ahead, and has the schedule go on from a time in ms: now, or the last one that is settled, if its times are as before. If
-- the clock was set back it goes on from the last time that fell due. What is put off by a jitter and has its time behind it is on its way: it stays,
-- since it would not be made again, unless the schedule stops.
function Schedules.begin_anew(s, now, from, stops)
  for _, one in ipairs(s.occurrences) do
    if one.due <= now then s.fell = math.max(s.fell, one.time) end
  end
  s.cursor, s.unread = math.max(math.floor(math.min(from, now) / 1000), s.fell), 0
  Schedules.withdraw(s, function(one) return one.due > now and (stops or one.time * 1000 > now) end)
end

-- Whether a schedule was filled while the clock was ahead: what fell due, or was made, is later than now. Until that time it makes nothing.
function Schedules.is_ahead(s, now)
  if s.fell * 1000 > now then return true end
  for _, one in ipairs(s.occurrences) do
    if one.at > now then return true end
  end
  return false
end

-- Has the carrier look at a schedule at a time in ms; nil: not at all. Call raise_alarm, or set_alarm, after all.
function Schedules.look_at(topic, name, at)
  call('ZADD', SCHEDULES, at and text(at) or '+inf', topic .. ':' .. name)
end

-- Has the carrier look at once.
function Schedules.raise_alarm(now)
  Rings.look_at(ALARM, now)
end

-- Has the carrier look when the first of all schedules says so.
function Schedules.set_alarm()
  local first = head_of(SCHEDULES)
  if first and first < math.huge then try('ZADD', ALARMS, text(first), ALARM) else try('ZREM', ALARMS, ALARM) end
end

-- When the carrier looks at schedules, in ms; nil if the key is foreign, false if it does not.
function Schedules.alarm()
  local at = try('ZSCORE', ALARMS, ALARM)
  return at ~= nil and tonumber(at or nil) or at
end

-- Takes a schedule out of all that leads to it.
function Schedules.forget(topic, name)
  try('ZREM', SCHEDULES, topic .. ':' .. name)
  call('HDEL', rules_of(topic), name)
  call('HDEL', schedules_of(topic), name)
end

-- Has the carrier look again in a second, unless it has filled the schedules until then. Returns whether there are any.
function Schedules.ring(now)
  if head_of(SCHEDULES) then return try('ZADD', ALARMS, text(now + 1000), ALARM) ~= nil end
  try('ZREM', ALARMS, ALARM)
  return false
end

-- Whether the carrier is to settle what was missed before it carries anything: its alarm is late by that many ms, as after a time without a carrier, or
-- where the clock was set forward.
function Schedules.are_unsettled(now, late)
  local at = Schedules.alarm()
  return at and at <= now - late
end

-- Withdraws what a schedule made ahead, if its times depend on a zone, so that it is made anew.
function Schedules.renew(topic, name, now)
  local rule = string.match(try('HGET', rules_of(topic), name) or '', '^[^\n]*')
  local s = string.find(rule, '"zone":"', 1, true) and Schedules.read(topic, name)
  if not s or s.paused > 0 then return end
  Schedules.revise(s)
  Schedules.begin_anew(s, now, s.cursor * 1000)
  Schedules.look_at(topic, name, now)
  Schedules.raise_alarm(now)
end

-- Publishes an occurrence, and notes it. Returns false if it cannot be published, since a key is foreign or the time is past the year 9999.
local function publish(c, s, one)
  if one.key and try('HLEN', keys_of(s.topic)) == nil then return false end
  local made = Conflicts.publish(c, one)
  local refused = made[1] == 'refused' and made[2]
  if refused and refused ~= -1 and refused ~= -7 and refused ~= -8 then return false end
  table.insert(s.occurrences, { time = one.time, due = refused and one.when or one.due, at = refused and 0 or c.now })
  if refused then s.taken = s.taken + 1 else s.made = s.made + 1 end
  Counters.count_all(refused and 'taken' or 'made', 1)
  return true
end

-- The occurrence that a fill names by four values of ARGV from one on: its time in seconds, when it is due in ms, JSON of what it asks for,
-- and its record without its times.
local function occurrence_at(s, i)
  local one = cjson.decode(ARGV[i + 2])
  one.topic, one.time, one.when, one.tail = s.topic, tonumber(ARGV[i]), tonumber(ARGV[i + 1]), ARGV[i + 3]
  one.member = member_of(s, one.time)
  return one
end

-- Makes what a fill says of a schedule, by nine values of ARGV from one on, and four of each occurrence: see fill.lua. Returns where the next
-- begins, and what became of it: made, stale if it was changed meanwhile, or foreign.
function Schedules.make(c, i)
  local topic, name, revision, before, cursor, late, missed, unread, at = unpack(ARGV, i, i + 8)
  local first, n = i + 10, tonumber(ARGV[i + 9])
  local next_one = first + 4 * n
  local s = Schedules.read(topic, name)
  if not s or text(s.revision) ~= revision or text(s.cursor) ~= before or s.paused > 0 then return next_one, 'stale' end
  for _, one in ipairs(s.occurrences) do
    if one.due <= c.now then s.fell = math.max(s.fell, one.time) end
  end
  if late ~= '' then Schedules.withdraw(s, function(one) return math.max(one.due, one.at) <= tonumber(late) end) end
  local noted, fault = {}, false
  for _, one in ipairs(s.occurrences) do noted[one.time] = true end
  for k = first, next_one - 1, 4 do
    local one = occurrence_at(s, k)
    if not noted[one.time] and not fault then
      fault = not publish(c, s, one)
      if fault then
        cursor = one.time - 1
        s.cursor = math.min(s.cursor, cursor) -- what was late, and is taken back, is made or missed later
      end
    end
  end
  s.cursor, s.missed = math.max(tonumber(cursor), s.cursor), s.missed + tonumber(missed)
  table.sort(s.occurrences, function(a, b) return a.time < b.time end)
  local function since(before_that, is_so) return is_so and (before_that > 0 and before_that or c.now) or 0 end
  s.refused, s.unread = since(s.refused, fault), since(s.unread, unread == '1')
  Schedules.write(s)
  Counters.count_all('missed', tonumber(missed))
  Counters.count_all('refused', fault and 1 or 0)
  Counters.count_all('unreadable', tonumber(unread))
  if fault then at = c.now + AGAIN end
  Schedules.look_at(topic, name, at ~= '' and tonumber(at) or nil)
  return next_one, fault and 'foreign' or 'made'
end

-- The schedules that the carrier is to look at, up to some: topic, name, what was put, the state, and, if it settles what was missed, the times of
-- those that are due and wait as they were made.
function Schedules.due_page(now, settles, most)
  local page, size = {}, 0
  for _, member in ipairs(call('ZRANGE', SCHEDULES, '-inf', now, 'BYSCORE', 'LIMIT', 0, most)) do
    local topic, name = string.match(member, '^([^:]+):(.+)$')
    local s = topic and Schedules.read(topic, name)
    local rule = s and try('HGET', rules_of(topic), name)
    if not rule then
      call('ZREM', SCHEDULES, member) -- of nothing
    else
      local late = {}
      for _, one in ipairs(settles and s.occurrences or {}) do
        if one.due <= now and Schedules.waits(s, one) then late[#late + 1] = one.time end
      end
      page[#page + 1] = { topic, name, rule, call('HGET', schedules_of(topic), name), late }
      size = size + #rule
      if size > BYTES then break end
    end
  end
  return page
end
