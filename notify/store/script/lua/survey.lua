-- Sums up what a shard holds, and lists which topics are behind, blocked, paused or busy.
-- ARGV: how many topics of each kind at the most.
-- Reply: topics, messages, leased, dead letters, broadcasts that wait; ever published, acked, died, sent, dropped; how often schedules were
--   changed, and pushes; topics that have groups; now in ms; then four lists of topics and times in ms, behind and with blocked messages: the oldest first, paused: in the order of
--   being so, busy: the latest first.
local most = tonumber(ARGV[1])
local _, now = clock()

-- Topics in an index with their times, without foreign members.
local function listed(...)
  local page = try('ZRANGE', ...) or {}
  local list = {}
  for i = 1, #page, 2 do
    if is_topic(page[i]) then
      list[#list + 1] = page[i]
      list[#list + 1] = text(page[i + 1])
    end
  end
  return list
end

-- Topics that are paused by their settings; others are taken out of the index.
local function paused_topics()
  local list, still = listed(PAUSED, 0, most - 1, 'WITHSCORES'), {}
  for i = 1, #list, 2 do
    if Settings.paused(list[i]) then
      still[#still + 1] = list[i]
      still[#still + 1] = list[i + 1]
    else
      try('ZREM', PAUSED, list[i])
    end
  end
  return still
end

local sums = try('HMGET', TOPICS, '*:published', '*:acked', '*:died', '*:sent', '*:dropped', '*:schedules') or {}
local function total(i) return text(tonumber(sums[i] or 0) or 0) end
return {
  try('ZCARD', NAMES) or 0, (try('HLEN', MESSAGES) or 0) - (try('ZCARD', TAKEN) or 0), try('ZCARD', LEASED) or 0, try('HLEN', DEATHS) or 0,
  try('ZCARD', BROADCASTS) or 0, total(1), total(2), total(3), total(4),
  total(5), total(6), text(tonumber(try('HGET', PUSHES, '*') or 0) or 0), try('ZCARD', GROUPED) or 0, now,
  listed(SCHEDULED, '-inf', now, 'BYSCORE', 'LIMIT', 0, most, 'WITHSCORES'),
  listed(KEYED, '-inf', now, 'BYSCORE', 'LIMIT', 0, most, 'WITHSCORES'), paused_topics(),
  listed(BUSY, 0, most - 1, 'REV', 'WITHSCORES'),
}
