-- Checks what is kept beside messages: attempts, expiries, extras and reasons of deaths must belong to one, and taken to a record that
-- begins with =. What is kept of one that succeeded may have attempts. A successor of nothing is published. Entries of workers and of
-- what they claimed must be readable: the housekeeping forgets others. So must be what is noted of outboxes.
-- KEY: attempts, expiries, extras, taken, deaths, claims, workers or relayed.
-- ARGV: those of all (shared/repair.lua).
-- Reply: that of all.
local us, now = clock()
local is_set, is_of_none = KEY == EXPIRIES or KEY == TAKEN or KEY == CLAIMS, KEY == CLAIMS or KEY == WORKERS or KEY == RELAYED
local next_page, members = Repair.page_of(is_set and 'ZSCAN' or 'HSCAN', KEY)

local function belongs(member)
  if KEY == EXTRAS and member == '*' then return Extras.extra(try('HGET', EXTRAS, member), 'archive') end
  if KEY == CLAIMS then
    local receipt = string.match(member, '^(%d+) %d+ %S+ %S+$')
    return receipt and tonumber(receipt) == tonumber(call('ZSCORE', KEY, member) or receipt)
  elseif KEY == WORKERS then
    local ok, entry = pcall(cjson.decode, call('HGET', KEY, member) or '{}')
    return ok and type(entry) == 'table'
  elseif KEY == RELAYED then
    local rows = string.match(call('HGET', KEY, member) or ' \n', '^%S* %S*\n(.*)$')
    return rows and string.gsub(rows .. ' ', '%d+:%d+ ', '') == (rows == '' and ' ' or '')
  end
  if KEY == TAKEN then return Messages.is_done(call('HGET', MESSAGES, member)) end
  if KEY ~= DEATHS then return Repair.is_message(member) or KEY == ATTEMPTS and Repair.is_kept_one(member) end
  local topic = topic_of(member)
  return topic and try('ZSCORE', dead_of(topic), member) or try('ZSCORE', dead_of(Dead.NOWHERE), member)
end

-- The successor of a member that has no message; nil if there is none that can be published.
local function heir_of(member)
  local noted, topic = KEY == EXTRAS and try('HGET', EXTRAS, member), topic_of(member)
  return topic and is_topic(topic) and Extras.successor_in(noted) and noted
end

for _, member in ipairs(members) do
  if not belongs(member) then
    local heir = heir_of(member)
    if heir and Repair.wrong('of nothing', member, KEY, 'its successor published') then
      Counters.remember(topic_of(member))
      Endings.publish_successor(member, heir, us, now, 'dropped')
    elseif not heir and Repair.wrong(is_of_none and 'unreadable' or 'of nothing', member, KEY, 'removed') then
      call(is_set and 'ZREM' or 'HDEL', KEY, member)
    end
  end
end
return Repair.report(next_page, #members, us)
