-- Checks that HOOKS has the patterns of the named listeners to deaths, all of it at one moment.
-- ARGV: those of all (shared/repair.lua).
-- Reply: that of all; if there are too many to count in one step none was checked.
local us = clock()
local MOST = 4000
if (try('HLEN', LISTENERS) or math.huge) + (try('HLEN', HOOKS) or math.huge) > MOST then return Repair.report('0', 0, us) end
local names, hooks, counted, looked = call('HGETALL', LISTENERS), call('HGETALL', HOOKS), {}, 0
for i = 2, #names, 2 do
  local pattern = string.match(names[i], '^%S+') or ''
  if string.sub(pattern, 1, 6) == '$dead.' then counted[pattern] = (counted[pattern] or 0) + 1 end
end
for i = 1, #hooks, 2 do
  local n = counted[hooks[i]]
  counted[hooks[i]], looked = nil, looked + 1
  if not n then
    if Repair.wrong('of nothing', hooks[i], HOOKS, 'removed') then call('HDEL', HOOKS, hooks[i]) end
  elseif tonumber(hooks[i + 1]) ~= n and Repair.wrong('count', hooks[i], HOOKS, 'set to ' .. n) then
    call('HSET', HOOKS, hooks[i], n)
  end
end
for pattern, n in pairs(counted) do
  looked = looked + 1
  if Repair.wrong('count', pattern, HOOKS, 'set to ' .. n) then call('HSET', HOOKS, pattern, n) end
end
return Repair.report('0', looked, us)
