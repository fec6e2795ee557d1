-- Looks whether topics stand where who looks for their messages finds them: in the set of all schedules by the due time of the
-- first in their own, in the set of what is ready, and among the logs.
-- KEYS[10]: logs. ARGV[7..]: topics, or what stands there in place of one.
local LOGS = KEYS[10]

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
      schedule(member_of, base .. 'schedule:' .. member_of, { index, topic })
    end
  elseif wrong('index', topic, SCHEDULES, due and 'set to the due time of its first message' or 'removed, since nothing of it is scheduled') then
    local first = head_of(SCHEDULES)
    set_head(topic, key)
    if due then nudge(due, first) end
  end
end

local function look_at_ready(topic)
  local key = base .. 'ready:' .. topic
  local ready = try('ZCARD', key)
  local there = try('SISMEMBER', READY, topic)
  if not ready or not there or (ready > 0) == (there == 1) then return end
  if not wrong('index', topic, READY, ready > 0 and 'added' or 'removed, since nothing of it is ready') then return end
  if ready == 0 then return call('SREM', READY, topic) end
  call('SADD', READY, topic)
  ring(topic, base .. 'waiting:' .. topic, ready, us)
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

for i = 7, #ARGV do
  looked = looked + 1
  look_at_schedule(ARGV[i])
  look_at_ready(ARGV[i])
  if is_topic(ARGV[i]) then look_at_log(ARGV[i]) end
end
return answer('0')
