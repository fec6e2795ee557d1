-- Gives claimed messages back untouched, so that no attempt is used up, and stops waiting for the topic.
-- KEYS[10..13]: ready, waiting, dead and schedule of the topic.
-- ARGV[3]: topic, ARGV[4]: the inbox that waits no longer, or ''; then for as many messages each: members, receipts, due times in ms
--   (0: now, behind what is overdue in the schedule).
-- Reply: the positions, from 1, of those whose lease is lost.
-- It may have been rung for messages that it now leaves: somebody else is rung for them.
local us, now = clock()
local topic = ARGV[3]
local n = (#ARGV - 4) / 3
local lost = {}
if ARGV[4] ~= '' then try('ZREM', KEYS[11], ARGV[4]) end
if n > 0 then
  local members, receipts = { unpack(ARGV, 5, 4 + n) }, { unpack(ARGV, 5 + n, 4 + 2 * n) }
  local mine
  mine, lost = held(members, receipts)
  local due = {}
  for i, member in ipairs(members) do
    due[member] = ARGV[4 + 2 * n + i]
    if due[member] == '0' then due[member] = now end
  end
  if #mine > 0 then count(topic, 'released', 1) end
  local ready, later, earliest = {}, {}, now
  local behind = #mine > 0 and is_behind(topic, now)
  for _, member in ipairs(mine) do
    local list = behind and due[member] == now and later or ready
    list[#list + 1] = due[member]
    list[#list + 1] = member
    if list == ready then earliest = math.min(earliest, due[member]) end
  end
  if #later > 0 and not schedule(topic, KEYS[13], now, later) then return foreign_schedule(topic, KEYS[13]) end
  if #ready > 0 and not add_ready(topic, KEYS[10], earliest, ready) then return foreign_ready(topic, KEYS[10]) end
  if #mine > 0 then
    count(topic, 'leased', -call('ZREM', LEASED, unpack(mine)))
    if call('EXISTS', EXPIRIES) == 1 then
      for _, member in ipairs(mine) do no_longer_leased(member, now) end
    end
  end
end
local ready = try('ZCARD', KEYS[10]) or 0
if ready > 0 then ring(topic, KEYS[11], ready, us) end
return lost
