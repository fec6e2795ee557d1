-- Acknowledges a message, and keeps it as done for a while, with a result. One that has a successor is not kept, since that has its id.
-- ARGV: topic; member; receipt; the name of the worker, or ''; for how many ms to keep it, 0: not at all; the result, if there is one.
-- Reply: 1 if the lease is lost; 1 if it is not kept although that was asked for: memory is short, or it has a successor.
local topic, member, receipt, name, asked, result = unpack(ARGV, 1, 6)
local lease = call('ZSCORE', LEASED, member)
if not Leases.is_under(member, lease, receipt) then return { 1, 0 } end
local us, now = clock()
local noted = call('EXISTS', EXTRAS) == 1 and try('HMGET', EXTRAS, '*', member) or {}
local keep, left = tonumber(asked), { member }
local most, age = string.match(try('HGET', KEPT, 'done') or '', '^(%d+) (%d+)$')
local kept = keep > 0 and not Extras.successor_in(noted[2]) and try('ZCARD', done_of(topic)) ~= nil and Memory.has_room(now)

-- The record of one that is kept, and until when it is.
local function record_to_keep()
  local unique, soonest = Extras.extra(noted[2], 'unique'), math.ceil(us / 1000)
  local taken = unique and math.min(soonest + unique, MAX)
  local over = math.min(math.max(soonest + math.min(keep, tonumber(age or keep)), taken or 0), MAX)
  local published = Messages.published_of(call('HGET', MESSAGES, member) or '')
  local worker, since = Attempts.holder_after(topic, lease, name)
  since = tonumber(since or 0)
  local object = { published = published, ended = now, taken = taken, by = worker, took = since > 0 and math.max(now - since, 0) or nil }
  return '=' .. text(over) .. ',' .. cjson.encode(object) .. (result and '\n' .. result or ''), over
end

-- Keeps the message as done. What leads to its record is written before that, and what goes with the message itself is removed behind it.
local function keep_done()
  local record, over = record_to_keep()
  if noted[1] or noted[2] then Ends.note_ends({ member }, 'acked', nil, now, noted, { result = result }) end
  Endings.free_over(2, now)
  Seats.forget(topic, { member }, 'acked')
  try('ZREM', EXPIRIES, member)
  try('ZADD', TAKEN, text(over), member)
  call('ZADD', done_of(topic), text(over), member)
  try('ZADD', DONE, 'LT', text(over), topic)
  call('HSET', MESSAGES, member, record)
  table.remove(left)
  if noted[2] then try('HDEL', EXTRAS, member) end
end

Leases.can_put_back()
Limits.leave(topic, left)
Leases.take_leased(left)
or_undo(function()
  if not left[1] then return end
  Leases.put_leased({ lease, member })
  Ends.forget_ends(left)
end, function()
  if kept then keep_done() else Endings.end_messages(left, 'acked', nil, { result = Memory.has_room(now) and result or nil }) end
end)
Counters.count(topic, 'leased', -1)
Counters.count(topic, 'acked', 1)
Counters.count_all('acked', 1)
local removed = kept and most and Endings.trim_done(topic, tonumber(most), 2, now, member) or 0
if removed > 0 then try('HINCRBY', KEPT, 'forgotten', removed) end
return { 0, keep > 0 and not kept and 1 or 0 }
