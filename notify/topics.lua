-- Counts the messages of topics.
-- KEYS[10..]: ready, waiting, dead and schedule of each topic, and its log. ARGV[3..]: the topics.
-- Reply: for each topic: scheduled, ready, leased, dead, waiting, published, acked, for how many ms the oldest ready one is
--   due, broadcasts that wait, that were sent, and that are in the log, messages that died, in how many us after its due
--   time, and the age that it asked for, the last claim claimed its oldest message, 1 if it is paused.
local KEPT = { 'leased', 'published', 'acked', 'broadcasts', 'sent', 'died', 'lateness', 'paused' }
local _, now = clock()
local fields = {}
for i = 3, #ARGV do
  for _, what in ipairs(KEPT) do fields[#fields + 1] = ARGV[i] .. ':' .. what end
end
local kept = try('HMGET', TOPICS, unpack(fields)) or {}

-- A count; 0 for what is foreign.
local function number(count)
  local n = tonumber(count or 0) or 0
  return n >= -LAST and n <= LAST and n or 0
end

local function size(command, key)
  return try(command, key) or 0
end

local reply = {}
for i = 3, #ARGV do
  local key, field, at = 5 * (i - 3) + 10, #KEPT * (i - 3), #reply
  local ready, overdue = size('ZCARD', KEYS[key]), 0
  if ready > 0 then -- and due later, where the clock was set back
    overdue = math.max(number(now - call('ZRANGE', KEYS[key], 0, 0, 'WITHSCORES')[2]), 0)
  end
  local leased, published, acked, broadcasts, sent, died, lateness, paused_ = unpack(kept, field + 1, field + #KEPT)
  reply[at + 1], reply[at + 2], reply[at + 3] = size('ZCARD', KEYS[key + 3]), ready, number(leased)
  reply[at + 4], reply[at + 5] = size('ZCARD', KEYS[key + 2]), size('ZCARD', KEYS[key + 1])
  reply[at + 6], reply[at + 7], reply[at + 8] = number(published), number(acked), overdue
  reply[at + 9], reply[at + 10], reply[at + 11] = number(broadcasts), number(sent), size('XLEN', KEYS[key + 4])
  reply[at + 12], reply[at + 13], reply[at + 14] = number(died), number(lateness), paused_ == '1' and 1 or 0
end
return reply
