-- Records of messages.

-- What scripts read of a record: its ttl and its limit of attempts, each nil if it is missing or invalid, and whether it is a
-- broadcast.
local function options_of(record)
  record = record or ''
  local object = string.match(record, '^%d+,({[^\n]*)') or string.match(record, '^%d+,%d+,({[^\n]*)')
  if not object then return {} end -- as in nearly every record
  local ok, options = pcall(cjson.decode, object)
  if not ok or type(options) ~= 'table' then return {} end
  local function number(value)
    if type(value) == 'number' and value >= 1 then return value end
  end
  return { ttl = number(options.ttl), attempts = number(options.attempts), broadcast = options.mode == 'broadcast' }
end

-- Changes the due time of the first attempt in a message's record, once the message has that due time. A foreign record stays as
-- it is.
local function put_first_due(member, due)
  local record = call('HGET', MESSAGES, member) or ''
  local head, body = string.match(record, '^([^\n]*)(\n.*)$')
  local at, object = string.match(head or '', '^(%d+)(.*)$')
  if not at then return end
  local after, behind = string.match(object, '^,([1-9]%d*)(.*)$')
  object = behind or object
  if at + (after or 0) > MAX or object ~= '' and string.sub(object, 1, 2) ~= ',{' then return end
  local times = due > tonumber(at) and at .. ',' .. text(due - at) or at
  call('HSET', MESSAGES, member, times .. object .. body)
end

-- The records of members, in their order and false for a missing one, until BYTES are full: there may be fewer than members.
local function records_of(members)
  local records, n, size = {}, 0, 0
  for from = 1, #members, 64 do
    local page = call('HMGET', MESSAGES, unpack(members, from, math.min(from + 63, #members)))
    for i = 1, #page do
      if size >= BYTES then return records end
      n = n + 1
      records[n] = page[i]
      if page[i] then size = size + #page[i] end
    end
  end
  return records
end

-- Forgets messages altogether. It removes their records last, so that they are whole if the script stops before.
local function forget(members)
  if call('EXISTS', ATTEMPTS, EXPIRIES) > 0 then
    try('HDEL', ATTEMPTS, unpack(members))
    try('ZREM', EXPIRIES, unpack(members))
  end
  call('HDEL', MESSAGES, unpack(members))
end

-- Takes a member out of a place and forgets it; if it cannot be forgotten it stays there. Returns whether it was there: then the
-- caller updates the index of the place.
local function forget_from(place, member)
  local score = try('ZSCORE', place, member)
  if not score then return false end
  call('ZREM', place, member)
  or_undo(function() call('ZADD', place, score, member) end, forget, { member })
  return true
end
