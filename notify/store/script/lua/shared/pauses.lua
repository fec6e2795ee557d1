-- Pauses of topics, which their settings have. A pause that has an end has an entry in ALARMS, too, so that the carrier ends it in time.

local ENDS = '//' -- before a topic in ALARMS: behind a single / is a topic that waits for its rate

-- The end of a pause in ms. Asked is that end, or + and for how many ms from now on, so not a ms less. Returns nil if it is past, or further
-- off than the longest pause.
function Pauses.end_asked(asked, us)
  local now = math.ceil(us / 1000)
  local at = string.sub(asked, 1, 1) == '+' and now + tonumber(asked) or tonumber(asked)
  return at > now and at - now <= LONGEST_PAUSE and text(at) or nil
end

-- The topic of an entry in ALARMS whose pause ends; nil if it is another entry.
function Pauses.ending_in(entry)
  return string.sub(entry, 1, #ENDS) == ENDS and string.sub(entry, #ENDS + 1) or nil
end

-- When the carrier is to look at the pause of a topic, in ms; nil if it is not to, and false if the key is foreign.
function Pauses.noted_end(topic)
  local at = try('ZSCORE', ALARMS, ENDS .. topic)
  return at ~= nil and tonumber(at or nil)
end

-- Has the carrier look at the pause of a topic at its end, in ms, or earlier; nil: not at all.
function Pauses.note_end(topic, at)
  if at then Rings.look_at(ENDS .. topic, at) else try('ZREM', ALARMS, ENDS .. topic) end
end

-- Ends the pause of a topic, if its time has come. Returns whether it is over; else the carrier looks again later.
function Pauses.finish(topic, now)
  local own = try('HGET', TOPICS, topic .. ':settings')
  local at = Settings.pause_end(own)
  if not at then return true end
  if at > now then -- it was noted for another pause
    call('ZADD', ALARMS, text(at), ENDS .. topic)
    return false
  end
  local after = Settings.written(own, { paused = '', paused_until = '' })
  Settings.put(topic, after)
  if after == '' then Counters.forget_if_unused(topic) end
  try('ZREM', PAUSED, topic)
  return true
end
