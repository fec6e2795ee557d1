-- Compares the counters of one kind with what they count, all of it at one moment.
-- KEYS[10]: the sorted set that holds that. ARGV[7]: the counters' name.
-- Reply: as of all, but where there are too many to be counted in one step none was looked at.
local MOST = 4000
local key, what = KEYS[10], ARGV[7]
if (try('ZCARD', key) or 0) > MOST then return answer('0') end
local counted = {}
for _, member in ipairs(try('ZRANGE', key, 0, -1) or {}) do
  local topic = topic_of(member)
  if topic and is_topic(topic) then counted[topic] = (counted[topic] or 0) + 1 end
end

local function compare(topic, value)
  looked = looked + 1
  local n = counted[topic] or 0
  if tonumber(value or 0) == n then return end
  if not wrong('count', topic, TOPICS, 'set to ' .. n .. ' ' .. what) then return end
  local field = topic .. ':' .. what
  if n == 0 then
    call('HDEL', TOPICS, field)
  else
    call('HSET', TOPICS, field, n)
    know(topic)
  end
end

local page = try('HSCAN', TOPICS, cursor, 'COUNT', PAGE) or { '0', {} }
for i = 1, #page[2], 2 do
  local topic, name = string.match(page[2][i], '^([^:]+):(.*)$')
  if name == what then compare(topic, page[2][i + 1]) end
end
if cursor == '0' then
  looked = looked + 1
  for topic in pairs(counted) do
    if try('HEXISTS', TOPICS, topic .. ':' .. what) == 0 then compare(topic, nil) end
  end
end
return answer(page[1])
