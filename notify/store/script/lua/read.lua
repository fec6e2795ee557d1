-- Reads logs of topics behind a position, up to another, and finds which others have grown.
-- ARGV: the position and the other, in us, 0: the ends of the logs; how many entries of each log at the most; how many topics that have
--   grown to check, and behind which position; after how many bytes of records the reply is full; then the topics.
-- Reply: the mark of the store; the position up to which it read; now in ms, 0 if no entry may have a time to live; 1 if more topics
--   have grown than were checked; those that were not asked for; then for each log: 1 if there may be more, the position up to which
--   some were missed or '', and the entries.
local after, upto, limit, page, behind, bytes = unpack(ARGV, 1, 6)
local topics = column(7, #ARGV - 6)
after, upto, limit, page, bytes = tonumber(after), tonumber(upto), tonumber(limit), tonumber(page), tonumber(bytes)
local grown = page > 0 and try('ZRANGE', LOGS, '(' .. behind, text(LAST), 'BYSCORE', 'LIMIT', 0, page, 'WITHSCORES') or {}
local last, ends = upto, {}
for i = 1, #grown, 2 do
  last = math.floor(grown[i + 1])
  ends[grown[i]] = last
end
if last == 0 then last = Logs.last_sent() end
local to = last > after and Logs.id_of(last) or '+' -- a bell rang, but LOGS shows no growth: read up to the ends of the logs

local logs, now = {}, 0
for i, topic in ipairs(topics) do
  local at = ends[topic] or upto + page == 0 and #topics > 1 and Logs.last_sent_to(topic)
  ends[topic] = nil
  logs[i] = { 0, '', {} }
  if not at or at > after then
    local entries, more, size, marked = Logs.entries_of(log_of(topic), after, to, limit, bytes / (#topics + 1 - i)) -- each has its share
    if marked and now == 0 then now = select(2, clock()) end
    local lost = Logs.lost_of(topic, after, entries, to)
    bytes = math.max(bytes - size, 0)
    logs[i] = { more and 1 or 0, lost and text(lost) or '', entries }
    if #entries > 0 then last = math.max(last, Logs.position_of(entries[#entries][1])) end
  end
end
local others = {}
for topic in pairs(ends) do others[#others + 1] = topic end
return { STORE, text(last), now, page > 0 and #grown == 2 * page and 1 or 0, others, unpack(logs) }
