-- Reads logs of topics behind a position, up to another.
-- KEYS[10]: logs, KEYS[11..]: the logs of topics.
-- ARGV[3]: after where and ARGV[4]: up to where, in us, ARGV[5]: how many of each log at the most; then the topics.
-- Reply: for each log: 1 if there may be more, up to where some were missed or '', and the entries.
local after, upto, limit = tonumber(ARGV[3]), id_of(tonumber(ARGV[4])), tonumber(ARGV[5])
local reply, bytes = {}, BYTES
for i = 1, #KEYS - 10 do
  local log = KEYS[10 + i]
  local entries, more, size = entries_of(log, after, upto, limit, bytes / (#KEYS - 9 - i)) -- each has its share
  local lost = lost_of(log, ARGV[5 + i], after, entries, upto, KEYS[10])
  bytes = math.max(bytes - size, 0)
  reply[i] = { more and 1 or 0, lost and text(lost) or '', entries }
end
return reply
