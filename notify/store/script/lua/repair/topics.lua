-- Checks that topics are in the indexes by which their messages are found: in the index of scheduled sets by the due time of the
-- first in their own, in the set of what is ready by that of their first or an earlier one, among the logs, by name, by their pauses,
-- deaths and what is kept of them, and in the index in which the housekeeping finds what is too old.
-- ARGV: those of all (shared/repair.lua); topics, or foreign members of the indexes.
-- Reply: that of all.
local topics = column(4, #ARGV - 3)
local us, now = clock()

-- Whether a member of a topic has a record and no place.
local function has_no_place(topic, member)
  return is_topic(topic) and Repair.is_message(member) and #Repair.places_with(topic, { member })[1] == 0
end

local function examine_scheduled(topic)
  local head, index = try('ZRANGE', scheduled_of(topic), 0, 0, 'WITHSCORES'), try('ZSCORE', SCHEDULED, topic)
  if not head or index == nil then return end -- a foreign key, which another step finds
  local due = tonumber(head[2])
  index = tonumber(index or nil)
  if due == index then return end
  local member_of = topic_of(topic)
  if not due and member_of and has_no_place(member_of, topic) then
    if Repair.wrong('index', topic, SCHEDULED, 'put into the scheduled set of its topic') then
      call('ZREM', SCHEDULED, topic)
      Places.put_scheduled(member_of, { index, topic }, index)
    end
  elseif Repair.wrong('index', topic, SCHEDULED, due and 'set to the due time of its first message' or 'removed, since nothing of it is scheduled') then
    local first = head_of(SCHEDULED)
    Places.index_scheduled(topic)
    if due then Rings.nudge(due, first) end
  end
end

local function examine_ready(topic)
  local key = ready_of(topic)
  local first, index = try('ZRANGE', key, 0, 0, 'WITHSCORES'), try('ZSCORE', READY, topic)
  if not first or index == nil then return end -- a foreign key, which another step finds
  local due = tonumber(first[2])
  index = tonumber(index or nil)
  if not due and not index or due and index and index <= due then return end
  local remedy = 'removed, since nothing of it is ready'
  if due then remedy = index and 'set to the due time of its first message' or 'added' end
  if not Repair.wrong('index', topic, READY, remedy) then return end
  if not due then return call('ZREM', READY, topic) end
  call('ZADD', READY, text(due), topic)
  if not index then Rings.ring(topic, call('ZCARD', key), us) end
end

local function examine_log(topic)
  if try('ZSCORE', LOGS, topic) ~= false then return end
  local entry = (try('XREVRANGE', log_of(topic), '+', '-', 'COUNT', 1) or {})[1]
  local last = entry and Logs.position_of(entry[1])
  if last and Repair.wrong('index', topic, LOGS, 'added, with the last broadcast of its log') then try('ZADD', LOGS, text(last), topic) end
end

local function examine_oldest(topic)
  local oldest, index = head_of(dead_of(topic)), try('ZSCORE', OLDEST, topic)
  if not oldest or index == nil or index and tonumber(index) <= oldest then return end
  if Repair.wrong('index', topic, OLDEST, 'set to the time of its oldest death') then Dead.note_oldest(topic) end
end

local function examine_newest(topic)
  local newest = tonumber((try('ZRANGE', dead_of(topic), -1, -1, 'WITHSCORES') or {})[2])
  local index = try('ZSCORE', NEWEST, topic)
  if not newest or index == nil or index and tonumber(index) >= newest then return end
  if Repair.wrong('index', topic, NEWEST, 'set to the time of its newest death') then try('ZADD', NEWEST, text(newest), topic) end
end

local function examine_done(topic)
  local first, index = head_of(done_of(topic)), try('ZSCORE', DONE, topic)
  if not first or index == nil or index and tonumber(index) <= first then return end
  if Repair.wrong('index', topic, DONE, 'set to the time at which the first is over') then call('ZADD', DONE, text(first), topic) end
end

local function examine_keyed(topic)
  if not try('ZSCORE', KEYED, topic) or call('EXISTS', keys_of(topic), line_of(topic)) > 0 then return end
  if Repair.wrong('index', topic, KEYED, 'removed, since no message of it has a key') then call('ZREM', KEYED, topic) end
end

-- Whether something ever happened in a topic, or it has settings.
local function is_known(topic)
  for _, n in ipairs(Counters.ever(topic) or {}) do
    if n then return true end
  end
  return false
end

local function examine_names(topic)
  local seen, name = try('ZSCORE', SEEN, topic), try('ZSCORE', NAMES, topic)
  if name and name ~= '0' then
    if Repair.wrong('index', topic, NAMES, 'set to 0, as all') then call('ZADD', NAMES, 0, topic) end
  end
  if seen ~= false and name ~= false or not is_known(topic) then return end
  if seen == false and Repair.wrong('index', topic, SEEN, 'added, so that it can be forgotten') then call('ZADD', SEEN, 0, topic) end
  if name == false and Repair.wrong('index', topic, NAMES, 'added') then call('ZADD', NAMES, 0, topic) end
end

local function examine_settings(topic)
  local own = try('HGET', TOPICS, topic .. ':settings')
  if not own then return end
  local right = ''
  if is_topic(topic) or topic == '*' then
    local lasts = topic ~= '*' and Settings.pause_end(own)
    right = Settings.written(own, { paused = topic == '*' and '' or nil, paused_until = not lasts and '' or nil })
  end
  if own == right and own ~= '' or not Repair.wrong('settings', topic, TOPICS, right == '' and 'removed' or 'set to' .. right) then return end
  if right ~= '' then call('HSET', TOPICS, topic .. ':settings', right) else call('HDEL', TOPICS, topic .. ':settings') end
end

local function examine_pause(topic)
  local there = try('ZSCORE', PAUSED, topic)
  if there == nil or Settings.paused(topic) == (there ~= false) then return end
  if there then
    if Repair.wrong('index', topic, PAUSED, 'removed, since it is not paused') then call('ZREM', PAUSED, topic) end
  elseif Repair.wrong('index', topic, PAUSED, 'added, as paused now') then
    call('ZADD', PAUSED, now, topic)
  end
end

local function examine_pause_end(topic)
  local at, noted = Settings.pause_end(try('HGET', TOPICS, topic .. ':settings')), Pauses.noted_end(topic)
  if noted == false or at == noted or at and noted and noted < at then return end
  if Repair.wrong('index', topic, ALARMS, at and 'set to the end of its pause' or 'removed, since no pause of it has an end') then
    Pauses.note_end(topic, at)
  end
end

for _, topic in ipairs(topics) do
  examine_scheduled(topic)
  examine_ready(topic)
  examine_settings(topic)
  if is_topic(topic) then
    examine_log(topic)
    examine_oldest(topic)
    examine_newest(topic)
    examine_done(topic)
    examine_names(topic)
    examine_pause(topic)
    examine_pause_end(topic)
    examine_keyed(topic)
  elseif try('ZSCORE', NAMES, topic) and Repair.wrong('index', topic, NAMES, 'removed, since it is no topic') then
    call('ZREM', NAMES, topic)
  end
end
return Repair.report('0', #topics, us)
