-- Counts the messages of topics.
-- ARGV: the topics.
-- Reply: for each topic: scheduled, ready, leased, dead, waiting, published, acked, for how many ms the oldest ready one has been
--   due, broadcasts that wait, that were sent, and that are in the log, messages that died, how many us after its due time, plus
--   the age that the claim asked for, the last claim leased its oldest message, 1 if the topic is paused, messages that were
--   dropped, that are blocked, keys of these, for how many ms the oldest of these has been due, the topic's concurrency and rate, when its pause
--   ends, in ms, 0: it has no end; and for how many ms the oldest scheduled one has been due.
local WANTED = { 'leased', 'published', 'acked', 'broadcasts', 'sent', 'died', 'lateness', 'settings', 'dropped' }
local _, now = clock()
local fields = {}
for _, topic in ipairs(ARGV) do
  for _, what in ipairs(WANTED) do fields[#fields + 1] = topic .. ':' .. what end
end
local kept = try('HMGET', TOPICS, unpack(fields)) or {}

-- A counter; 0 for what is foreign.
local function number(counter)
  local n = tonumber(counter or 0) or 0
  return n >= -LAST and n <= LAST and n or 0
end

-- For how many ms a time has passed: none if the clock was set back.
local function age(time)
  return math.max(number(now - (time or now)), 0)
end

local function size(command, key)
  return try(command, key) or 0
end

-- For how many ms the first of a sorted set has been due.
local function overdue_in(set, n)
  return n > 0 and age((try('ZRANGE', set, 0, 0, 'WITHSCORES') or {})[2]) or 0
end

local reply = {}
for i, topic in ipairs(ARGV) do
  local ready_set, field, at = ready_of(topic), #WANTED * (i - 1), #reply
  local ready, scheduled, blocked = size('ZCARD', ready_set), size('ZCARD', scheduled_of(topic)), size('ZCARD', line_of(topic))
  local leased, published, acked, broadcasts, sent, died, lateness, own, dropped = unpack(kept, field + 1, field + #WANTED)
  reply[at + 1], reply[at + 2], reply[at + 3] = scheduled, ready, number(leased)
  reply[at + 4], reply[at + 5] = size('ZCARD', dead_of(topic)), size('ZCARD', waiting_of(topic))
  reply[at + 6], reply[at + 7], reply[at + 8] = number(published), number(acked), overdue_in(ready_set, ready)
  reply[at + 9], reply[at + 10], reply[at + 11] = number(broadcasts), number(sent), size('XLEN', log_of(topic))
  reply[at + 12], reply[at + 13], reply[at + 14] = number(died), number(lateness), Settings.get('paused', own, nil) == 1 and 1 or 0
  reply[at + 15], reply[at + 16] = number(dropped), blocked
  reply[at + 17], reply[at + 18] = blocked > 0 and size('ZCARD', heads_of(topic)) or 0, overdue_in(heads_of(topic), blocked)
  reply[at + 19], reply[at + 20] = Settings.get('concurrency', own), Settings.get('rate', own)
  reply[at + 21], reply[at + 22] = Settings.pause_end(own) or 0, overdue_in(scheduled_of(topic), scheduled)
end
return reply
