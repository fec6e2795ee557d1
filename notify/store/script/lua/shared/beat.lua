-- The beat of a carrier.

local CLAIM_TIME = 50000 -- us within which a subscriber that was rung claims
local LATELY = 2500000 -- us for which beats name a log that has grown: two beats, since one may be lost
local TOPICS_A_BEAT = 500 -- topics that a beat checks for a lost ring
local BYTES_OF_TOPICS = 4096 -- bytes of topics that a beat names

-- Whether a subscriber was rung a while ago and has not claimed since: the ring was lost, or the subscriber hangs. One that was handed
-- a message says nothing, since it may be busy with that: a hand-over that was lost counts when it lapses.
local function lost_ring(waiting, us)
  local rung = (try('ZRANGE', waiting, text(Rings.RUNG), '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES') or {})[2]
  return rung and us - (rung - Rings.RUNG) > CLAIM_TIME
end

-- The bell of a beat repeats bells that may have been lost. It names the logs that have grown lately, if they are few, so that
-- listeners to other topics need not read.
local function bell_of_beat(c)
  local MOST = Broadcasts.LOGS_A_CALL
  local latest = c.rare > 0 and try('ZRANGE', LOGS, text(LAST), 0, 'BYSCORE', 'REV', 'LIMIT', 0, MOST + 1, 'WITHSCORES') or {}
  local since, topics = 0, {}
  for i = 1, #latest, 2 do
    local position = math.floor(latest[i + 1])
    if position <= c.us - LATELY or i > 2 * MOST then
      since = position
      break
    end
    if is_topic(latest[i]) then topics[#topics + 1] = latest[i] end
  end
  return Broadcasts.bell_of(since, math.floor(latest[2] or 0), topics)
end

-- Rings again for a topic with ready messages that may be claimed, which may have lost a ring. Returns whether the beat is to name it: its
-- waiting list is empty, and may have been lost. Programs of any language are told again in either case.
local function ring_again(c, topic, ready)
  ready = Rings.most(topic, ready, c.us)
  if ready == 0 then return false end
  local waiting = waiting_of(topic)
  if (try('ZCARD', waiting) or 0) > 0 then
    if lost_ring(waiting, c.us) then c.repeated = (c.repeated or 0) + 1 end
    Rings.ring(topic, ready, c.us)
  else
    if SHARDED then tell_heard(WAKES, topic .. ' ' .. ready) else tell(wake_of(topic), ready) end
    return true
  end
end

-- Sends the beat of a carrier's epoch, and returns the cursor over the topics that have something ready for the next one. It begins with
-- another topic of a page each time, since not all names may find room.
local function send(c, epoch, cursor)
  local page = c.rare > 0 and try('ZSCAN', READY, cursor, 'COUNT', TOPICS_A_BEAT) or { '0', {} }
  local fields, size = { epoch, text(c.now), string.match(STORE, '%S+$'), bell_of_beat(c) }, 0
  local n = #page[2] / 2
  for k = 1, n do
    local topic = page[2][2 * ((c.us + k) % n) + 1]
    local ready = try('ZCARD', ready_of(topic))
    if ready == 0 then
      Places.index_ready(topic)
    elseif ready and ring_again(c, topic, ready) and size + #topic < BYTES_OF_TOPICS then
      fields[#fields + 1] = topic
      size = size + #topic
    end
  end
  tell(BEAT, table.concat(fields, ' '))
  return page[1]
end

-- Does what a beat does behind what is due.
function Beat.beat(c)
  if ARGV[8] == '1' then
    c.evicts = Memory.memory_of_redis().evicts
    c.kept = (try('HLEN', MESSAGES) or 0) - (c.rare > 0 and try('ZCARD', TAKEN) or 0)
  end
  c.cursor = send(c, ARGV[2], ARGV[9])
  if SHARDED then c.taker = Standbys.taker_of_shard(tonumber(ARGV[3]), c.now) end
  if ARGV[11] then c.totals = History.note_history() end
end
