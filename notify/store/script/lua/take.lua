-- Hands out broadcasts to a process of a named listener: first those whose lease ended, then those behind its places in the
-- logs of topics. Before that it acknowledges broadcasts that were handled, and releases others.
-- ARGV: name; its registration; the name of the worker, or ''; lease in ms; how many at the most; number of those acknowledged; of those
--   released; then these, the receipts of those released, how many attempts of each failed, and the topics.
-- Reply: the mark of the store, alone, if the registration is gone. Else the end of the lease in ms; of each one handed out: topic,
--   attempt and entry; of each gap: topic, and the positions after which and up to which it is, in us; the topics whose logs may hold
--   more.
-- If it released any, it tells the other processes of the listener.
local name, registration, worker, lease, left, n_acked, n_back = unpack(ARGV, 1, 7)
if call('HGET', LISTENERS, name) ~= registration then return { STORE } end
lease, left, n_acked, n_back = tonumber(lease), tonumber(left), tonumber(n_acked), tonumber(n_back)
local first = 8 + n_acked
local acked, back = column(8, n_acked), column(first, n_back)
local receipts, failed = column(first + n_back, n_back), column(first + 2 * n_back, n_back)
first = first + 3 * n_back
local topics = column(first, #ARGV - first + 1)
local start, floor = string.match(registration, ' (%d+) (%d+) %S+$')
local _, now = clock()
local deadline = now + lease
local places, held, tries, owners = places_of(name), held_of(name), tries_of(name), owners_of(name)

if #acked > 0 then
  call('ZREM', held, unpack(acked))
  if call('EXISTS', tries) == 1 then call('HDEL', tries, unpack(acked)) end
  try('HDEL', owners, unpack(acked))
end
-- Released broadcasts are handed out first, in the order in which they were sent, whenever each is released.
local returned = false
for i, member in ipairs(back) do
  if call('ZSCORE', held, member) == receipts[i] then -- else its lease was lost, and another may have it
    call('ZADD', held, 0, member)
    call('HINCRBY', tries, member, failed[i] - 1)
    try('HDEL', owners, member)
    returned = true
  end
end
if returned then tell(name_of(name), '') end

local out, gaps, more, holds, handed, reached, bytes = {}, {}, {}, {}, {}, {}, BYTES
local function hand_out(topic, member, attempt, entry)
  out[#out + 1] = { topic, attempt, entry }
  holds[#holds + 1] = deadline
  holds[#holds + 1] = member
  handed[#handed + 1] = member
  left = left - 1
end

-- First those whose lease ended.
local ended = left > 0 and call('ZRANGE', held, '-inf', now, 'BYSCORE', 'LIMIT', 0, left) or {}
for _, member in ipairs(ended) do
  if bytes <= 0 then break end
  local position, topic = string.match(member, '^(%d+) (.+)$')
  local entry = position and (try('XRANGE', log_of(topic), Logs.id_of(position), Logs.id_of(position)) or {})[1]
  if entry then
    bytes = bytes - #(Logs.field_of(entry, 'record') or '')
    hand_out(topic, member, 1 + call('HINCRBY', tries, member, 1), entry)
  else
    call('ZREM', held, member)
    call('HDEL', tries, member)
    try('HDEL', owners, member)
    if position then gaps[#gaps + 1] = { topic, text(position - 1), position } end
  end
end

-- Then new ones.
for _, topic in ipairs(topics) do
  if left <= 0 or bytes <= 0 then
    more[#more + 1] = topic
  else
    local place = tonumber(call('HGET', places, topic) or nil)
    local missed_after = place or math.max(start, floor)
    place = place or tonumber(start)
    local entries, rest, size = Logs.entries_of(log_of(topic), place, '+', left, bytes)
    local lost = Logs.lost_of(topic, missed_after, entries, '+')
    if lost then
      gaps[#gaps + 1] = { topic, text(missed_after), text(lost) }
      place = lost
    end
    for _, entry in ipairs(entries) do
      place = Logs.position_of(entry[1])
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

-- Places move last: if the script stops before, the next one hands out what has no lease.
if #holds > 0 then call('ZADD', held, unpack(holds)) end
if #reached > 0 then call('HSET', places, unpack(reached)) end
Leases.index_handed(name)
Leases.note_owner(name, handed, worker, deadline, lease)
return { deadline, out, gaps, more }
