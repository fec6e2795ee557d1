-- Looks how far a named listener is behind in logs of topics.
-- KEYS[10]: logs, KEYS[11..]: the logs of topics. ARGV[3..]: of each of these the topic, its place, and behind where it is
--   missed what was trimmed.
-- Reply: for each log: the position of the first broadcast behind the place, '' if there is none; 1 if some were trimmed
--   before; 1 if that first one is among the oldest of a log that is trimmed, which go next.
local NEXT = 10 -- as part of the time that a log covers
local now = clock()
local reply = {}
for i = 1, #KEYS - 10 do
  local log, topic, place, missed_after = KEYS[10 + i], ARGV[3 * i], tonumber(ARGV[3 * i + 1]), tonumber(ARGV[3 * i + 2])
  local entries = entries_of(log, place, '+', 1, 0)
  local oldest = entries_of(log, 0, '+', 1, 0)[1]
  local at, first = entries[1] and position_of(entries[1][1]), oldest and position_of(oldest[1])
  local trimmed = oldest and (position_of(field_of(oldest, 'prev') or '') or 0) > 0
  reply[i] = {
    at and text(at) or '',
    lost_of(log, topic, missed_after, entries, '+', KEYS[10]) and 1 or 0,
    at and trimmed and (at - first) * NEXT <= now - first and 1 or 0,
  }
end
return reply
