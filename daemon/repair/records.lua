-- Looks at records: those that stand in no place are made ready, as due now, or have the carrier send them if they are broadcasts.
-- Those of a name that is none of ours are told, and stay.
local next_, members = page_of('HSCAN', MESSAGES)

local function send(topic, member)
  local head = head_of(BROADCASTS)
  if not try('ZADD', BROADCASTS, now, member) then return in_vain() end
  count(topic, 'broadcasts', 1)
  know(topic)
  nudge(now, head)
end

local function make_ready(topic, member)
  if not add_ready(topic, base .. 'ready:' .. topic, now, { now, member }) then return in_vain() end
  know(topic)
  ring(topic, base .. 'waiting:' .. topic, 1, us)
end

for topic, list in pairs(by_topic(members)) do
  for i, where in ipairs(stand(topic, list)) do
    local member = list[i]
    if #where > 0 then -- it has its place
    elseif topic == '' then
      wrong('foreign record', member, MESSAGES, '')
    elseif line_of(call('HGET', MESSAGES, member)).broadcast then
      if wrong('no place', member, MESSAGES, 'sent, as due now') then send(topic, member) end
    else
      if wrong('no place', member, MESSAGES, 'made ready, as due now') then make_ready(topic, member) end
    end
  end
end
return answer(next_)
