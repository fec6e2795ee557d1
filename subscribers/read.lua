-- Reads logs of topics behind a position, up to another, and tells which others have grown.
-- KEYS[10]: logs, KEYS[11..]: the logs of topics.
-- ARGV[3]: after where and ARGV[4]: up to where, in us, 0: to where the logs end; ARGV[5]: how many of each log at the most,
--   ARGV[6]: how many topics are looked at that have grown, and ARGV[7]: behind where; ARGV[8]: after how many bytes of records
--   the reply is full; then the topics.
-- Reply: the mark of the store; up to where it was read; 1 if more topics have grown than were looked at; those that were not
--   asked for; then for each log: 1 if there may be more, up to where some were missed or '', and the entries.
local LOGS = KEYS[10]
local after, upto, limit, page = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local grown = page > 0 and try('ZRANGE', LOGS, '(' .. ARGV[7], text(LAST), 'BYSCORE', 'LIMIT', 0, page, 'WITHSCORES') or {}
local last, ends = upto, {}
for i = 1, #grown, 2 do
  last = math.floor(grown[i + 1])
  ends[grown[i]] = last
end
if last == 0 then last = last_sent(LOGS) end
local to = last > after and id_of(last) or '+' -- what is rung for and not known to have grown: the logs themselves know it

local logs, bytes = {}, tonumber(ARGV[8])
for i = 1, #KEYS - 10 do
  local log, topic = KEYS[10 + i], ARGV[8 + i]
  local at = ends[topic] or upto + page == 0 and #KEYS > 11 and last_sent_to(LOGS, topic)
  ends[topic] = nil
  logs[i] = { 0, '', {} }
  if not at or at > after then
    local entries, more, size = entries_of(log, after, to, limit, bytes / (#KEYS - 9 - i)) -- each has its share
    local lost = lost_of(log, topic, after, entries, to, LOGS)
    bytes = math.max(bytes - size, 0)
    logs[i] = { more and 1 or 0, lost and text(lost) or '', entries }
    if #entries > 0 then last = math.max(last, position_of(entries[#entries][1])) end
  end
end
local others = {}
for topic in pairs(ends) do others[#others + 1] = topic end
return { STORE, text(last), page > 0 and #grown == 2 * page and 1 or 0, others, unpack(logs) }
