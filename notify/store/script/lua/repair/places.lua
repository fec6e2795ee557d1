-- Checks the members of one place: finds those without a record, those that belong to another topic, those in two places, and dead
-- letters without a reason.
-- KEY: the place.
-- ARGV: those of all (shared/repair.lua); the topic of the place, '' if it holds those of all.
-- Reply: that of all.
local own = ARGV[4]
local us = clock()
local next_page, members = Repair.page_of('ZSCAN', KEY)

-- The place that a member stays in: the first one, except that only a broadcast, and always a broadcast, stays among broadcasts.
local function stays_in(where, member)
  for i, place in ipairs(where) do
    if place == BROADCASTS then
      if Messages.options_of(call('HGET', MESSAGES, member)).broadcast then return place end
      table.remove(where, i)
    end
  end
  return where[1]
end

local function examine(topic, member, where)
  if own ~= '' and KEY == done_of(own) then
    if own == topic and Repair.is_kept_one(member) or not Repair.wrong('no record', member, KEY, 'removed') then return end
    Repair.take_out(KEY, own, member)
    return
  end
  if not Repair.is_message(member) then
    if Repair.wrong('no record', member, KEY, 'removed') then Repair.take_out(KEY, own ~= '' and own or topic, member) end
    return
  end
  if own ~= '' and own ~= topic and (topic ~= '' or KEY ~= dead_of(Dead.NOWHERE)) then
    if Repair.wrong('other topic', member, KEY, 'removed from there') then Repair.take_out(KEY, own, member) end
    return
  end
  local place = #where > 1 and stays_in(where, member) or KEY
  if place ~= KEY then
    if Repair.wrong('two places', member, KEY, 'removed from there') then Repair.take_out(KEY, topic, member) end
  elseif KEY == dead_of(Repair.dead_place(topic)) and not try('HGET', DEATHS, member) then
    if Repair.wrong('no reason', member, KEY, 'given the reason unknown') then try('HSET', DEATHS, member, 'unknown') end
  end
end

for topic, list in pairs(Repair.members_by_topic(members)) do
  for i, where in ipairs(Repair.places_with(topic, list)) do examine(topic, list[i], where) end
end
return Repair.report(next_page, #members, us)
