-- Records of messages.

-- What scripts read of a record: its ttl and its limit of attempts, nil where one is missing or no such number, and whether
-- it is a broadcast.
local function line_of(record)
  record = record or ''
  local object = string.match(record, '^%d+,({[^\n]*)') or string.match(record, '^%d+,%d+,({[^\n]*)')
  if not object then return {} end -- as that of nearly every record
  local ok, line = pcall(cjson.decode, object)
  if not ok or type(line) ~= 'table' then return {} end
  local function number(value)
    if type(value) == 'number' and value >= 1 then return value end
  end
  return { ttl = number(line.ttl), attempts = number(line.attempts), broadcast = line.mode == 'broadcast' }
end

-- Has the record of a message tell another due time of its first attempt, once the message stands there. A foreign record stays.
local function put_first_due(member, due)
  local record = call('HGET', MESSAGES, member) or ''
  local line, body = string.match(record, '^([^\n]*)(\n.*)$')
  local at, object = string.match(line or '', '^(%d+)(.*)$')
  if not at then return end
  local after, behind = string.match(object, '^,([1-9]%d*)(.*)$')
  object = behind or object
  if at + (after or 0) > MAX or object ~= '' and string.sub(object, 1, 2) ~= ',{' then return end
  local times = due > tonumber(at) and at .. ',' .. text(due - at) or at
  call('HSET', MESSAGES, member, times .. object .. body)
end

-- The records of members, in their order and false for one that is missing,
-- until BYTES are full; it may be fewer than members.
local function records_of(members)
  local records, size = {}, 0
  for from = 1, #members, 64 do
    local page = call('HMGET', MESSAGES, unpack(members, from, math.min(from + 63, #members)))
    for _, record in ipairs(page) do
      if size >= BYTES then return records end
      records[#records + 1] = record
      if record then size = size + #record end
    end
  end
  return records
end

-- Forgets messages altogether: their records last, so that a stop before leaves them whole.
local function forget(members)
  if call('EXISTS', ATTEMPTS) == 1 then try('HDEL', ATTEMPTS, unpack(members)) end
  if call('EXISTS', EXPIRIES) == 1 then try('ZREM', EXPIRIES, unpack(members)) end
  call('HDEL', MESSAGES, unpack(members))
end

-- Takes a member out of a place and forgets it; where it cannot be forgotten it stands there as it did. Returns whether it was
-- there: then the caller settles the place.
local function forget_from(place, member)
  local score = try('ZSCORE', place, member)
  if not score then return false end
  call('ZREM', place, member)
  or_undo(function() call('ZADD', place, score, member) end, forget, { member })
  return true
end
