-- Looks at what is kept beside messages: attempts, expiries and reasons of deaths that belong to nothing.
-- KEYS[10]: attempts, expiries or deaths.
local key = KEYS[10]
local next_, members = page_of(key == EXPIRIES and 'ZSCAN' or 'HSCAN', key)

local function belongs(member)
  if key ~= DEATHS then return call('HEXISTS', MESSAGES, member) == 1 end
  local topic = topic_of(member)
  return topic and try('ZSCORE', base .. 'dead:' .. topic, member) or try('ZSCORE', dead_of(''), member)
end

for _, member in ipairs(members) do
  if not belongs(member) and wrong('of nothing', member, key, 'removed') then
    call(key == EXPIRIES and 'ZREM' or 'HDEL', key, member)
  end
end
return answer(next_)
