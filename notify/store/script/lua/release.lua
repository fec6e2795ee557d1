-- Releases leased messages, so that no attempt is used up, and takes an inbox off the waiting list of the topic. Those that are to be
-- cancelled are cancelled.
-- ARGV: topic; the inbox, or ''; when the last hand-over that it received was made, in us, or 0; then of as many messages each: members,
--   receipts, due times in ms (0: now, behind what is overdue in the scheduled set).
-- Reply: the positions, from 1, of those whose lease is lost.
-- The inbox may have been rung for messages that its subscriber now leaves: others are rung for them.
local topic, inbox, received = unpack(ARGV, 1, 3)
local n = (#ARGV - 3) / 3
local us, now = clock()
local lost = {}
if n > 0 then
  local members, receipts, dues = column(4, n), column(4 + n, n), column(4 + 2 * n, n)
  local mine
  mine, lost = Leases.leased_under(members, receipts)
  local kept, stopped = #mine > 0 and call('EXISTS', EXPIRIES, EXTRAS, EXTRAS) or 0, {} -- EXTRAS counts as two
  if kept >= 2 then stopped, mine = Extras.part_stopped(mine) end
  local position, from_now, as_before, earliest = Leases.positions_of(members, lost), {}, {}, now
  for _, member in ipairs(mine) do
    local list, time = from_now, now
    if dues[position[member]] ~= '0' then
      list, time = as_before, dues[position[member]]
      earliest = math.min(earliest, time)
    end
    list[#list + 1] = time
    list[#list + 1] = member
  end
  if #mine > 0 then Leases.turn_receipts(topic) end
  if #from_now > 0 then
    local state, fault = Enter.place(topic, from_now, now, false, now)
    if not state then return Enter.foreign(topic, fault) end
  end
  if #as_before > 0 and not Places.put_ready(topic, as_before, earliest) then return Places.foreign_ready(topic) end
  if #mine > 0 then
    Limits.leave(topic, mine)
    Counters.count(topic, 'leased', -Leases.take_leased(mine))
    if kept >= 2 then Extras.drop_progress(mine) end
    if kept % 2 == 1 then
      for _, member in ipairs(mine) do Leases.no_longer_leased(member, now) end
    end
  end
  if #stopped > 0 then Endings.cancel_leased(topic, stopped, call('ZMSCORE', LEASED, unpack(stopped))) end
end
if inbox ~= '' then Handover.leave(topic, inbox, received, now) end
local ready = try('ZCARD', ready_of(topic)) or 0
if ready > 0 then Rings.ring(topic, ready, us) end
return lost
