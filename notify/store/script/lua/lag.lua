-- Measures how far a named listener is behind in logs of topics.
-- ARGV: for each log the topic, the listener's place, and the position behind which it misses trimmed entries.
-- Reply: for each log: the position of the first broadcast behind the place, '' if there is none; 1 if some were trimmed
--   before; 1 if that first one is among the oldest of a log that is trimmed, which go next.
local NEXT = 10 -- the oldest are those in the first 1/NEXT of the time that a log covers
local now = clock()
local reply = {}
for i = 1, #ARGV, 3 do
  local topic, place, missed_after = unpack(ARGV, i, i + 2)
  local log = log_of(topic)
  local entries = Logs.entries_of(log, tonumber(place), '+', 1, 0)
  local oldest = Logs.entries_of(log, 0, '+', 1, 0)[1]
  local at, first = entries[1] and Logs.position_of(entries[1][1]), oldest and Logs.position_of(oldest[1])
  local trimmed = oldest and (Logs.position_of(Logs.field_of(oldest, 'prev') or '') or 0) > 0
  reply[#reply + 1] = {
    at and text(at) or '',
    Logs.lost_of(topic, tonumber(missed_after), entries, '+') and 1 or 0,
    at and trimmed and (at - first) * NEXT <= now - first and 1 or 0,
  }
end
return reply
