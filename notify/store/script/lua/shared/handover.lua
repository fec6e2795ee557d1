-- Hand-over: a message that becomes due alone, while a subscriber waits with a free hand and nothing older of the topic is ready, is
-- leased to that subscriber at once and sent along with the ring. The lease is short until the subscriber confirms it by extending
-- it. One that is not confirmed has .5 in its receipt: when it ends, and was spared once, the message is ready again, and no attempt is
-- used up. How old a hand-over is, and which one it is, subscribers tell by its time: so nothing is handed over while the clock stands still.

Handover.LARGEST = 4096 -- bytes of the largest record that is handed over

-- The subscriber that the next due message of a topic is handed to: the one that waits longest, if it takes messages. Nil if the
-- message must be made ready instead, and then whether no inbox waits.
function Handover.taker_of(topic)
  local inbox, since = unpack(try('ZRANGE', waiting_of(topic), '0', '0', 'WITHSCORES') or {})
  if not inbox then return nil, true end
  if tonumber(since) >= Rings.RUNG or string.find(inbox, ':hands:', #BASE, true) ~= #BASE then return nil end
  local ready = try('ZRANGE', ready_of(topic), '0', '0')
  if not ready or ready[1] then return nil end
  local own, common, released, history, still = unpack(
    try('HMGET', TOPICS, topic .. ':settings', '*:settings', topic .. ':released', '*:history', '*:still') or {}
  )
  if still or Settings.get('paused', own, nil) == 1 or Limits.are_in(own) then return nil end
  return { inbox = inbox, lease = Settings.get('lease', own, common), released = Leases.digit_of(released), history = history }
end

-- Leases a due message to its taker. The caller sends it, when all else is done.
function Handover.put_handed(taker, member, used, us)
  taker.at = us + -us % 20 -- see Leases.is_spared
  taker.receipt = Leases.receipt_of(taker.at + UNCONFIRMED, (taker.released + used) % 10) + 0.5
  Leases.put_leased({ taker.receipt, member })
end

-- Sends a message that was leased to its taker, with what is known of the attempts that failed, if anything is. Its inbox gets no other
-- until its subscriber claims. If nobody is subscribed to it,
-- the message becomes ready. Returns whether it was sent. Nothing fails once the message was received.
function Handover.send_handed(taker, topic, due, member, used, record, us, lines)
  local waiting, receipt = waiting_of(topic), string.format('%.1f', taker.receipt)
  Counters.count(topic, 'leased', 1)
  local late = us - due * 1000
  try('HSET', TOPICS, topic .. ':lateness', text(math.min(late, LAST)))
  call('ZADD', waiting, text(taker.at + Rings.HANDOVER), taker.inbox)
  local tries = lines and used .. '/' .. #lines or used
  local line = table.concat({ topic, text(taker.at), receipt, due, tries, taker.lease, string.sub(member, #topic + 2) }, ' ')
  if (tell(taker.inbox, line .. (lines or '') .. '\n' .. record) or 0) > 0 then
    if taker.history then redis.pcall('HINCRBY', LATE, string.char(65 + Counters.late_bucket(late)), '1') end
    return true
  end
  try('ZREM', waiting, taker.inbox)
  if Places.put_ready(topic, { due, member }, due) then
    Leases.take_leased({ member })
    Counters.count(topic, 'leased', -1)
    Rings.ring(topic, 1, us)
  end
end

-- When a message was due whose hand-over, made at a time in ms, was not confirmed: as its record says, unless it was put off since, for
-- another attempt or by a snooze; what is due then is handed over at once.
function Handover.due_before(member, record, made)
  local due = Messages.first_due_of(record)
  local used = Leases.used_in(try('HGET', ATTEMPTS, member)) or 0
  if not due or due > made or used > 0 or Extras.extra(try('HGET', EXTRAS, member), 'snoozed') then return made end
  return due
end

-- Makes a message ready again that was handed over at a time in ms, and not received.
local function take_back(topic, member, made, now)
  local due = Handover.due_before(member, call('HGET', MESSAGES, member) or '', made)
  Leases.turn_receipts(topic)
  if not Places.put_ready(topic, { text(due), member }, due) then return end
  Counters.count(topic, 'leased', -Leases.take_leased({ member }))
  Leases.no_longer_leased(member, now)
end

-- Takes an inbox off the waiting list of a topic. What was handed over to it last, and was not received when that was made at received, in
-- us, is ready again, since it is older than what the same client may claim next. If it arrives all the same, its subscriber drops it: it
-- was handed over before the next claim.
function Handover.leave(topic, inbox, received, now)
  local waiting = waiting_of(topic)
  local handed = tonumber(try('ZSCORE', waiting, inbox) or 0) - Rings.HANDOVER
  try('ZREM', waiting, inbox)
  if handed < 0 or handed == tonumber(received) then return end
  local ends = Leases.receipt_of(handed + UNCONFIRMED, 0)
  local found = call('ZRANGE', LEASED, text(ends), string.format('%.1f', ends + 9.9), 'BYSCORE', 'WITHSCORES')
  for i = 1, #found, 2 do
    local member = found[i]
    local is_handed = topic_of(member) == topic and found[i + 1] % 1 > 0
    if is_handed and not Extras.extra(try('HGET', EXTRAS, member), 'stop') then take_back(topic, member, math.floor(handed / 1000), now) end
  end
end
