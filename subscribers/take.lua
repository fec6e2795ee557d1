-- Hands out broadcasts to a process of a named listener: first those whose lease ended, then those behind its places in the
-- logs of topics. With it, acknowledges what was handled, and gives back what was not begun.
-- KEYS[10]: logs, KEYS[11]: listeners, KEYS[12]: handed, KEYS[13]: places, KEYS[14]: held, KEYS[15]: tries, KEYS[16..]: the
--   logs of topics.
-- ARGV[3]: name, ARGV[4]: its registration, ARGV[5]: lease in ms, ARGV[6]: how many at the most, ARGV[7]: what keys begin
--   with, ARGV[8]: number of those acknowledged, ARGV[9]: of those given back; then these, the receipts of those given back,
--   how many attempts of each failed, and the topics.
-- Reply: the mark of the store, alone, if the registration is gone. Else the end of the lease in ms; of each one handed out: topic, attempt and entry;
--   of each gap: topic, and after and up to where in us; the topics of which there may be more.
-- The logs of what was held are named here, because they are learned here; they carry the same hash tag. Who listens under
-- the name is rung where something was given back.
local LOGS, HANDED, PLACES, HELD, TRIES = KEYS[10], KEYS[12], KEYS[13], KEYS[14], KEYS[15]
local name, registration, left, base = ARGV[3], ARGV[4], tonumber(ARGV[6]), ARGV[7]
if call('HGET', KEYS[11], name) ~= registration then return { STORE } end
local start, floor = string.match(registration, ' (%d+) (%d+) %S+$')
local _, now = clock()
local deadline = now + ARGV[5]
local first = 10 + ARGV[8] + 3 * ARGV[9]

local acked = { unpack(ARGV, 10, 9 + ARGV[8]) }
if #acked > 0 then
  call('ZREM', HELD, unpack(acked))
  if call('EXISTS', TRIES) == 1 then call('HDEL', TRIES, unpack(acked)) end
end
-- They are handed out first, in the order in which they were sent, whenever each is given back.
local returned = false
for i = 10 + ARGV[8], 9 + ARGV[8] + ARGV[9] do
  if call('ZSCORE', HELD, ARGV[i]) == ARGV[i + ARGV[9]] then -- else its lease was lost, and another may have it
    call('ZADD', HELD, 0, ARGV[i])
    call('HINCRBY', TRIES, ARGV[i], ARGV[i + 2 * ARGV[9]] - 1)
    returned = true
  end
end
if returned then tell(base .. 'name:' .. name, '') end

local out, gaps, more, holds, reached, bytes = {}, {}, {}, {}, {}, BYTES
local function hand_out(topic, member, attempt, entry)
  out[#out + 1] = { topic, attempt, entry }
  holds[#holds + 1] = deadline
  holds[#holds + 1] = member
  left = left - 1
end

-- Those whose lease ended.
local ended = left > 0 and call('ZRANGE', HELD, '-inf', now, 'BYSCORE', 'LIMIT', 0, left) or {}
for _, member in ipairs(ended) do
  if bytes <= 0 then break end
  local position, topic = string.match(member, '^(%d+) (.+)$')
  local entry = position and (try('XRANGE', base .. 'log:' .. topic, id_of(position), id_of(position)) or {})[1]
  if entry then
    bytes = bytes - #(field_of(entry, 'record') or '')
    hand_out(topic, member, 1 + call('HINCRBY', TRIES, member, 1), entry)
  else
    call('ZREM', HELD, member)
    call('HDEL', TRIES, member)
    if position then gaps[#gaps + 1] = { topic, text(position - 1), position } end
  end
end

-- Those that are new.
for i = first, #ARGV do
  local topic, log = ARGV[i], KEYS[16 + i - first]
  if left <= 0 or bytes <= 0 then
    more[#more + 1] = topic
  else
    local place = tonumber(call('HGET', PLACES, topic) or nil)
    local missed_after = place or math.max(start, floor)
    place = place or tonumber(start)
    local entries, rest, size = entries_of(log, place, '+', left, bytes)
    local lost = lost_of(log, topic, missed_after, entries, '+', LOGS)
    if lost then
      gaps[#gaps + 1] = { topic, text(missed_after), text(lost) }
      place = lost
    end
    for _, entry in ipairs(entries) do
      place = position_of(entry[1])
      hand_out(topic, text(place) .. ' ' .. topic, 1, entry)
    end
    if lost or #entries > 0 then
      reached[#reached + 1] = topic
      reached[#reached + 1] = text(place)
    end
    if rest then more[#more + 1] = topic end
    bytes = bytes - size
  end
end

-- A place moves on last: a script that ends before has what it did not hold handed out by the next one.
if #holds > 0 then call('ZADD', HELD, unpack(holds)) end
if #reached > 0 then call('HSET', PLACES, unpack(reached)) end
local head = call('ZRANGE', HELD, 0, 0, 'WITHSCORES')[2]
if head then try('ZADD', HANDED, head, name) else try('ZREM', HANDED, name) end
return { deadline, out, gaps, more }
