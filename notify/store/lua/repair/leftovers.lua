-- Checks what is kept beside messages: attempts, expiries and reasons of deaths must belong to one.
-- KEY: attempts, expiries or deaths.
-- ARGV: those of all (shared/repair.lua).
-- Reply: that of all.
local us = clock()
local next_page, members = page_of(KEY == EXPIRIES and 'ZSCAN' or 'HSCAN', KEY)

local function belongs(member)
  if KEY ~= DEATHS then return call('HEXISTS', MESSAGES, member) == 1 end
  local topic = topic_of(member)
  return topic and try('ZSCORE', dead_of(topic), member) or try('ZSCORE', dead_of(NOWHERE), member)
end

for _, member in ipairs(members) do
  if not belongs(member) and wrong('of nothing', member, KEY, 'removed') then
    call(KEY == EXPIRIES and 'ZREM' or 'HDEL', KEY, member)
  end
end
return report(next_page, #members, us)
