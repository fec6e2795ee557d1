-- Compares the counters of one kind with what they count, all of it at one moment.
-- KEY: the sorted set that holds that.
-- ARGV: those of all (shared/repair.lua); the counters' name.
-- Reply: that of all; if there are too many to count in one step none was checked.
local what = ARGV[4]
local us = clock()
local MOST = 4000
if (try('ZCARD', KEY) or 0) > MOST then return Repair.report('0', 0, us) end
local looked, counted = 0, {}
for _, member in ipairs(try('ZRANGE', KEY, 0, -1) or {}) do
  local topic = topic_of(member)
  if topic and is_topic(topic) then counted[topic] = (counted[topic] or 0) + 1 end
end

local function compare(topic, value)
  looked = looked + 1
  local n = counted[topic] or 0
  if tonumber(value or 0) == n then return end
  if not Repair.wrong('count', topic, TOPICS, 'set to ' .. n .. ' ' .. what) then return end
  local field = topic .. ':' .. what
  if n == 0 then
    call('HDEL', TOPICS, field)
  else
    call('HSET', TOPICS, field, n)
    Counters.remember(topic)
  end
end

local page = try('HSCAN', TOPICS, ARGV[2], 'COUNT', ARGV[3]) or { '0', {} }
for i = 1, #page[2], 2 do
  local topic, name = string.match(page[2][i], '^([^:]+):(.*)$')
  if name == what then compare(topic, page[2][i + 1]) end
end
if ARGV[2] == '0' then
  looked = looked + 1
  for topic in pairs(counted) do
    if try('HEXISTS', TOPICS, topic .. ':' .. what) == 0 then compare(topic, nil) end
  end
end
return Repair.report(page[1], looked, us)
