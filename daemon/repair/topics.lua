-- Looks whether topics stand where who looks for their messages finds them: in the set of all schedules by the due time of the
-- first in their own, in the set of what is ready by that of theirs or an earlier one, among the logs, by name, by their pauses
-- and deaths, and where the housekeeping looks for what is too old.
-- KEYS[10]: logs, KEYS[11]: deaths-oldest, KEYS[12]: deaths-newest, KEYS[13]: topics-seen, KEYS[14]: topics-names, KEYS[15]:
--   topics-paused. ARGV[7..]: topics, or what stands there in place of one.
local LOGS, OLDEST, NEWEST, SEEN, NAMES, PAUSED = unpack(KEYS, 10, 15)

local function look_at_schedule(topic)
  local key = base .. 'schedule:' .. topic
  local head, index = try('ZRANGE', key, 0, 0, 'WITHSCORES'), try('ZSCORE', SCHEDULES, topic)
  if not head or index == nil then return end -- it is foreign, which is told elsewhere
  local due = tonumber(head[2])
  index = tonumber(index or nil)
  if due == index then return end
  local member_of = topic_of(topic)
  if not due and member_of and is_topic(member_of) and call('HEXISTS', MESSAGES, topic) == 1 and #stand(member_of, { topic })[1] == 0 then
    if wrong('index', topic, SCHEDULES, 'put into the schedule of its topic') then
      call('ZREM', SCHEDULES, topic)
      schedule(member_of, base .. 'schedule:' .. member_of, index, { index, topic })
    end
  elseif wrong('index', topic, SCHEDULES, due and 'set to the due time of its first message' or 'removed, since nothing of it is scheduled') then
    local first = head_of(SCHEDULES)
    set_head(topic, key)
    if due then nudge(due, first) end
  end
end

local function look_at_ready(topic)
  local key = base .. 'ready:' .. topic
  local first, index = try('ZRANGE', key, 0, 0, 'WITHSCORES'), try('ZSCORE', READY, topic)
  if not first or index == nil then return end -- it is foreign, which is told elsewhere
  local due = tonumber(first[2])
  index = tonumber(index or nil)
  if not due and not index or due and index and index <= due then return end
  local remedy = 'removed, since nothing of it is ready'
  if due then remedy = index and 'set to the due time of its first message' or 'added' end
  if not wrong('index', topic, READY, remedy) then return end
  if not due then return call('ZREM', READY, topic) end
  call('ZADD', READY, text(due), topic)
  if not index then ring(topic, base .. 'waiting:' .. topic, call('ZCARD', key), us) end
end

-- The position of the last entry of a log, nil if it has none of ours.
local function last_in(log)
  local entry = (try('XREVRANGE', log, '+', '-', 'COUNT', 1) or {})[1]
  local ms, us_ = string.match(entry and entry[1] or '', '^(%d+)-(%d%d?%d?)$')
  local position = ms and ms * 1000 + us_
  return position and position <= LAST and position or nil
end

local function look_at_log(topic)
  if try('ZSCORE', LOGS, topic) ~= false then return end
  local last = last_in(base .. 'log:' .. topic)
  if last and wrong('index', topic, LOGS, 'added, with the last broadcast of its log') then try('ZADD', LOGS, text(last), topic) end
end

local function look_at_dead(topic)
  local oldest, index = head_of(base .. 'dead:' .. topic), try('ZSCORE', OLDEST, topic)
  if not oldest or index == nil or index and tonumber(index) <= oldest then return end
  if wrong('index', topic, OLDEST, 'set to the time of its oldest death') then note_oldest(base .. 'dead:' .. topic) end
end

local function look_at_newest(topic)
  local newest = tonumber((try('ZRANGE', base .. 'dead:' .. topic, -1, -1, 'WITHSCORES') or {})[2])
  local index = try('ZSCORE', NEWEST, topic)
  if not newest or index == nil or index and tonumber(index) >= newest then return end
  if wrong('index', topic, NEWEST, 'set to the time of its newest death') then try('ZADD', NEWEST, text(newest), topic) end
end

-- Whether something ever happened in a topic, or it is paused.
local function is_known(topic)
  local fields = {}
  for i, what in ipairs({ 'published', 'sent', 'acked', 'died', 'broadcasts', 'paused' }) do fields[i] = topic .. ':' .. what end
  for _, n in ipairs(try('HMGET', TOPICS, unpack(fields)) or {}) do
    if n then return true end
  end
  return false
end

local function look_at_names(topic)
  local seen, name = try('ZSCORE', SEEN, topic), try('ZSCORE', NAMES, topic)
  if name and name ~= '0' then
    if wrong('index', topic, NAMES, 'set to 0, as all') then call('ZADD', NAMES, 0, topic) end
  end
  if seen ~= false and name ~= false or not is_known(topic) then return end
  if seen == false and wrong('index', topic, SEEN, 'added, so that it can be forgotten') then call('ZADD', SEEN, 0, topic) end
  if name == false and wrong('index', topic, NAMES, 'added') then call('ZADD', NAMES, 0, topic) end
end

local function look_at_pause(topic)
  local there = try('ZSCORE', PAUSED, topic)
  if there == nil or paused(topic) == (there ~= false) then return end
  if there then
    if wrong('index', topic, PAUSED, 'removed, since it is not paused') then call('ZREM', PAUSED, topic) end
  elseif wrong('index', topic, PAUSED, 'added, as paused now') then
    call('ZADD', PAUSED, now, topic)
  end
end

for i = 7, #ARGV do
  looked = looked + 1
  look_at_schedule(ARGV[i])
  look_at_ready(ARGV[i])
  if is_topic(ARGV[i]) then
    look_at_log(ARGV[i])
    look_at_dead(ARGV[i])
    look_at_newest(ARGV[i])
    look_at_names(ARGV[i])
    look_at_pause(ARGV[i])
  elseif try('ZSCORE', NAMES, ARGV[i]) and wrong('index', ARGV[i], NAMES, 'removed, since it is no topic') then
    call('ZREM', NAMES, ARGV[i])
  end
end
return answer('0')
