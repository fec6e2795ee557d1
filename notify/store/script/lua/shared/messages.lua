-- Records of messages.

-- Whether what becomes of a message when it is claimed, or of a broadcast when it is sent, depends on the options of its record.
function Messages.is_marked(record)
  return string.byte(record) == 43
end

-- Whether a record is that of a message that ended, whose id stays taken: =UNTIL, or with what is kept of it, see is_kept.
function Messages.is_done(record)
  return record and string.byte(record) == 61
end

-- Whether a record is that of a message that succeeded and is kept: =UNTIL,OBJECT; and a newline and the result, if it has one.
function Messages.is_kept(record)
  return record and string.find(record, '^=%d+,') ~= nil
end

-- Until when, in ms, an id stays taken whose record begins with =UNTIL.
function Messages.taken_until(record)
  return tonumber(string.match(record, '^=(%d+)$') or string.match(record, '^=(%d+),') or 0)
end

-- Removes what is kept of a message that succeeded, but its record, which goes last.
function Messages.forget_kept(member)
  local topic = topic_of(member)
  try('HDEL', ATTEMPTS, member)
  if topic then try('ZREM', done_of(topic), member) end
end

-- Frees the id of a message that ended if its time is over. Returns whether it is free now.
function Messages.is_freed(member, record, now)
  if not Messages.is_done(record) or Messages.taken_until(record) > now then return false end
  if Messages.is_kept(record) then Messages.forget_kept(member) end
  call('HDEL', MESSAGES, member)
  try('ZREM', TAKEN, member)
  return true
end

-- What scripts read of a record, each nil if it is missing or invalid: in ms its ttl, lease, timeout of a try, how late it may be
-- claimed, and how long its id stays taken after its end; its limit of attempts; what becomes of it if it fails or is late; its key, its group,
-- TOPIC:NAME of that which it waits for, and what its dead letters do; and whether it is a broadcast.
function Messages.options_of(record)
  record = record or ''
  local object = string.match(record, '^%+?%d+,({[^\n]*)') or string.match(record, '^%+?%d+,%d+,({[^\n]*)')
  if not object then return {} end -- as in nearly every record
  local ok, options = pcall(cjson.decode, object)
  if not ok or type(options) ~= 'table' then return {} end
  local function number(value)
    if type(value) == 'number' and value >= 1 then return value end
  end
  local function word(value)
    if type(value) == 'string' then return value end
  end
  return {
    ttl = number(options.ttl), attempts = number(options.attempts), lease = number(options.lease), try = number(options.try),
    late_after = number(options.late_after), unique = number(options.unique), fail = options.fail, late = options.late,
    group = word(options.group), after_group = word(options.after_group), on_dead = word(options.on_dead), key = word(options.key),
    drop = options.if_busy == 'drop', broadcast = options.mode == 'broadcast',
  }
end

-- The due time of the first attempt in a record, in ms; nil if it is foreign.
function Messages.first_due_of(record)
  local at, after = string.match(record, '^%+?(%d+),?(%d*)')
  return at and at + (tonumber(after) or 0)
end

-- What a record begins with, of a message that is published at a time and due at another.
function Messages.times_of(due, at)
  return due > at and text(at) .. ',' .. text(due - at) or text(at)
end

-- When a message was published, by its record, in ms; nil if that is foreign.
function Messages.published_of(record)
  return tonumber(string.match(record, '^%+?(%d+)') or nil)
end

-- Whether a message was published at a time, in ms; '' and nil: whenever. Another one may have its id by now.
function Messages.is_of(member, published)
  local wanted = tonumber(published or nil)
  return not wanted or Messages.published_of(call('HGET', MESSAGES, member) or '') == wanted
end

-- Changes the due time of the first attempt in a message's record, once the message has that due time. A foreign record stays as
-- it is.
function Messages.put_first_due(member, due)
  local record = call('HGET', MESSAGES, member) or ''
  local head, body = string.match(record, '^([^\n]*)(\n.*)$')
  local mark, at, object = string.match(head or '', '^(%+?)(%d+)(.*)$')
  if not at or text(tonumber(at)) ~= at then return end
  local after, behind = string.match(object, '^,([1-9]%d*)(.*)$')
  object = behind or object
  if mark == '+' and object == '' or at + (after or 0) > MAX or object ~= '' and string.sub(object, 1, 2) ~= ',{' then return end
  call('HSET', MESSAGES, member, mark .. Messages.times_of(due, tonumber(at)) .. object .. body)
end

-- The records of members, in their order and false for a missing one, until so many bytes, BYTES if that is not given, are full: there may be fewer
-- than members.
function Messages.records_of(members, most)
  local records, n, size, each = {}, 0, 0, most and 16 or 64
  most = most or BYTES
  for from = 1, #members, each do
    local page = call('HMGET', MESSAGES, unpack(members, from, math.min(from + each - 1, #members)))
    for i = 1, #page do
      if size >= most then return records end
      n = n + 1
      records[n] = page[i]
      if page[i] then size = size + #page[i] end
    end
  end
  return records
end

-- Forgets messages of a topic altogether. It removes their records last, so that they are whole if the script stops before. Plain is
-- given if the caller has looked, and found that none has a key or a group, and that nothing is noted of any: 0 if none has a time to live or used
-- up an attempt, either. How is how they end, see Groups.touch.
function Messages.forget(members, plain, how)
  local kept = plain or call('EXISTS', ATTEMPTS, EXPIRIES, EXTRAS, KEYED, GROUPED)
  if kept > 0 then
    try('HDEL', ATTEMPTS, unpack(members))
    try('ZREM', EXPIRIES, unpack(members))
  end
  if kept > 0 and not plain then
    try('HDEL', EXTRAS, unpack(members))
    local topic = topic_of(members[1])
    if topic then Seats.forget(topic, members, how) end
  end
  call('HDEL', MESSAGES, unpack(members))
end

-- Takes a member out of a place and forgets it; if it cannot be forgotten it stays there. Returns whether it was there: then the
-- caller updates the index of the place.
function Messages.forget_from(place, member)
  local score = try('ZSCORE', place, member)
  if not score then return false end
  call('ZREM', place, member)
  or_undo(function() call('ZADD', place, score, member) end, Messages.forget, { member })
  return true
end
