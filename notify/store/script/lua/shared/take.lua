-- What a take of a named listener does. Each function gets the state c of the take: take.lua makes it.

-- Acknowledges broadcasts.
function Take.ack(c, members)
  if #members == 0 then return end
  call('ZREM', c.held, unpack(members))
  if call('EXISTS', c.tries) == 1 then call('HDEL', c.tries, unpack(members)) end
  try('HDEL', c.owners, unpack(members))
end

-- Releases broadcasts: they are handed out first, in the order in which they were sent, whenever each is released. Returns whether any was.
function Take.release(c, members, receipts, failed)
  local released = false
  for i, member in ipairs(members) do
    if is_same(call('ZSCORE', c.held, member), receipts[i]) then -- else its lease was lost, and another may have it
      call('ZADD', c.held, 0, member)
      call('HINCRBY', c.tries, member, failed[i] - 1)
      try('HDEL', c.owners, member)
      released = true
    end
  end
  return released
end

local function lease(c, member)
  c.holds[#c.holds + 1] = c.deadline
  c.holds[#c.holds + 1] = member
  c.handed[#c.handed + 1] = member
  c.left = c.left - 1
end

local function hand_out(c, topic, member, attempt, entry)
  c.out[#c.out + 1] = { topic, attempt, entry }
  lease(c, member)
end

-- A gap is handed out as a broadcast is, since the process may die before it heeds it. One of a single position has the member of the
-- broadcast that was there.
local function hand_out_gap(c, topic, member, attempt, after, upto)
  c.gaps[#c.gaps + 1] = { topic, attempt, text(after), text(upto) }
  lease(c, member)
end

-- Hands out those whose lease ended.
function Take.ended(c)
  local ended = c.left > 0 and call('ZRANGE', c.held, '-inf', c.now, 'BYSCORE', 'LIMIT', 0, c.left) or {}
  for _, member in ipairs(ended) do
    if c.bytes <= 0 then break end
    local position, topic = string.match(member, '^(%d+) (.+)$')
    local entry = position and (try('XRANGE', log_of(topic), Logs.id_of(position), Logs.id_of(position)) or {})[1]
    local after, upto, of = string.match(member, '^(%d+)%-(%d+) (.+)$') -- a gap
    if entry then
      c.bytes = c.bytes - #(Logs.field_of(entry, 'record') or '')
      hand_out(c, topic, member, 1 + call('HINCRBY', c.tries, member, 1), entry)
    elseif position or after then
      local attempt = 1 + call('HINCRBY', c.tries, member, 1)
      hand_out_gap(c, topic or of, member, attempt, tonumber(after or position - 1), tonumber(upto or position))
    else
      call('ZREM', c.held, member)
      call('HDEL', c.tries, member)
      try('HDEL', c.owners, member)
    end
  end
end

-- Hands out new ones of a topic: those behind the listener's place in its log.
function Take.new(c, topic)
  if c.left <= 0 or c.bytes <= 0 then
    c.more[#c.more + 1] = topic
    return
  end
  local place = tonumber(call('HGET', c.places, topic) or nil)
  local missed_after = place or math.max(c.start, c.floor)
  place = place or tonumber(c.start)
  local entries, rest, size = Logs.entries_of(log_of(topic), place, '+', c.left, c.bytes)
  local lost = Logs.lost_of(topic, missed_after, entries, '+')
  if lost then
    local range = lost - missed_after == 1 and text(lost) or text(missed_after) .. '-' .. text(lost)
    hand_out_gap(c, topic, range .. ' ' .. topic, 1, missed_after, lost)
    place = lost
    if #entries > c.left then
      table.remove(entries)
      rest = true
    end
  end
  for _, entry in ipairs(entries) do
    place = Logs.position_of(entry[1])
    hand_out(c, topic, text(place) .. ' ' .. topic, 1, entry)
  end
  if lost or #entries > 0 then
    c.reached[#c.reached + 1] = topic
    c.reached[#c.reached + 1] = text(place)
  end
  if rest then c.more[#c.more + 1] = topic end
  c.bytes = c.bytes - size
end
