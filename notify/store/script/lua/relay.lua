-- Publishes messages that stand in rows of an outbox: a table of a database, from which one relay at a time moves what was committed. It
-- begins at the shard first, which gives it the rows that were taken and may still be there. What the shard takes is noted until it takes
-- something of the next batch: so whoever begins next, after a relay was killed or an answer was lost, deletes the rows that were taken,
-- and publishes all others.
-- ARGV: the id of the outbox, and a new token to begin. Or these, the batch; 1 to publish as publish_as.lua does, 0 as publish.lua; how
--   many messages; for each SEQ:CALLED of its row, behind a + if it is kept where its id is in use; and the arguments of that script.
-- Reply: to begin, SEQ:CALLED of the rows that are noted, a space between. Else '' if another began since; or +, a list of the
--   places of messages that were not taken, and the reply of that script.
local refusal, us, now = Memory.refuse_to_grow()
if refusal then return refusal end
local outbox, token, batch, is_as = unpack(ARGV, 1, 4)
local note = try('HGET', RELAYED, outbox)
if note == nil then return redis.error_reply('what is noted of outboxes is foreign: ' .. RELAYED) end
local holder, last, noted = string.match(note or '', '^(%S+) (%S*)\n(.*)$')
if not batch then
  call('HSET', RELAYED, outbox, token .. ' \n' .. (noted or ''))
  return { noted or '' }
end
if holder ~= token then return { '' } end
local rows = column(6, tonumber(ARGV[5]))
ARGV = column(6 + #rows, #ARGV - 5 - #rows)
local reply, left, taken
if is_as == '1' then reply = Conflicts.publish_all(us, now) else reply = Batch.publish(us, now) end
left, taken = {}, { last == batch and noted ~= '' and noted or nil }

-- Whether the id of a message is in use, which the row is to leave as it is.
local function is_kept(row, why)
  return string.byte(row) == 43 and (why == -1 or why == -7 or why == -8)
end

for i, row in ipairs(rows) do
  local due = reply[is_as == '1' and 4 * i - 1 or i + 1] -- negative: why it is refused
  if due >= 0 or is_kept(row, due) then taken[#taken + 1] = string.match(row, '%d.*') else left[#left + 1] = i end
end
call('HSET', RELAYED, outbox, token .. ' ' .. batch .. '\n' .. table.concat(taken, ' '))
return { '+', left, unpack(reply) }
