-- Messages that outlived their time to live: they are buried or dropped. A leased one may still be acknowledged: it is checked again when
-- the lease ends.

Expired.units = 1
Expired.is_rare = true

function Expired.key() return EXPIRIES end

-- Whether what was carried before in a call may have changed the place.
function Expired.may_differ(c) return c.changed end

-- Buries or drops a message that has expired while it was scheduled, ready or blocked.
local function expire(c, topic, member)
  local scheduled, ready = scheduled_of(topic), ready_of(topic)
  local due, since = try('ZSCORE', scheduled, member), nil
  if not due then since = try('ZSCORE', ready, member) end
  local key, blocked
  if not due and not since then key, blocked = Seats.key_of(topic, member) end
  local function take()
    if due then Places.take_scheduled(topic, member) elseif since then Places.take_ready(topic, member) else Seats.take_blocked(topic, member) end
  end
  local function back()
    if due then
      Places.put_scheduled(topic, { due, member }, due)
    elseif since then
      Places.put_ready(topic, { since, member }, since)
    else
      Seats.restore(topic, member, key, blocked)
    end
  end
  if not due and not since and not blocked then
    call('ZREM', EXPIRIES, member)
  elseif Messages.options_of(call('HGET', MESSAGES, member)).fail == 'drop' then
    Move.drop(c, take, back, topic, member, 'expired', Move.used_by(member))
  else
    local was_buried = Move.bury(c, scheduled, 1, topic, member, 'expired', Move.used_by(member))
    if was_buried then
      Move.end_from(take, back, current.heirs, function() Endings.publish_heirs(c.us, c.now) end)
    elseif due or was_buried == false then
      Places.index_scheduled(topic)
      if not due then take() end -- it was postponed into the scheduled set
    else
      Places.index_ready(topic)
    end
  end
end

function Expired.carry(c)
  local ended = Move.due_in(EXPIRIES, c.now, c.slow)
  for i = 1, #ended, 2 do
    local member = ended[i]
    local topic = topic_of(member)
    local lease_end = call('ZSCORE', LEASED, member)
    if not topic or not is_topic(topic) then
      call('ZREM', EXPIRIES, member)
    elseif lease_end then
      call('ZADD', EXPIRIES, Leases.put_off(lease_end), member)
    else
      expire(c, topic, member)
    end
  end
end
