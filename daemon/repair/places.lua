-- Looks at the members of one place: those without a record, those that belong to another topic, those that stand in two
-- places, and dead letters without a reason.
-- KEYS[10]: the place. ARGV[7]: its topic, '' if it holds those of all.
local key, own = KEYS[10], ARGV[7]
local next_, members = page_of('ZSCAN', key)

-- Which of its places a member stays in: the first, but a broadcast, and nothing else, waits among broadcasts.
local function stays_in(where, member)
  for i, place in ipairs(where) do
    if place == BROADCASTS then
      if line_of(call('HGET', MESSAGES, member)).broadcast then return place end
      table.remove(where, i)
    end
  end
  return where[1]
end

local function look_at(topic, member, where)
  if call('HEXISTS', MESSAGES, member) == 0 then
    if wrong('no record', member, key, 'removed') then take_out(key, own ~= '' and own or topic, member) end
    return
  end
  if own ~= '' and own ~= topic and (topic ~= '' or key ~= dead_of('')) then
    if wrong('other topic', member, key, 'removed from there') then take_out(key, own, member) end
    return
  end
  local place = #where > 1 and stays_in(where, member) or key
  if place ~= key then
    if wrong('two places', member, key, 'removed from there') then take_out(key, topic, member) end
  elseif key == dead_of(topic) and not try('HGET', DEATHS, member) then
    if wrong('no reason', member, key, 'given the reason unknown') then try('HSET', DEATHS, member, 'unknown') end
  end
end

for topic, list in pairs(by_topic(members)) do
  for i, where in ipairs(stand(topic, list)) do look_at(topic, list[i], where) end
end
return answer(next_)
