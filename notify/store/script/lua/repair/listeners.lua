-- Checks what is kept of named listeners. Keys of a name that is not registered are only reported: the next listener of that name
-- registers it again, and continues from there.
-- ARGV: those of all (shared/repair.lua); names.
-- Reply: that of all.
local names = column(4, #ARGV - 3)
local us = clock()

local function examine(name)
  if try('HEXISTS', LISTENERS, name) == 0 then
    for _, key in ipairs({ places_of(name), held_of(name), tries_of(name), owners_of(name) }) do
      if call('EXISTS', key) == 1 then Repair.wrong('no listener', name, key, '') end
    end
  end
  if call('EXISTS', held_of(name)) == 0 and try('ZSCORE', ALARMS, name) then
    if Repair.wrong('index', name, ALARMS, 'removed, since it has nothing in hand') then call('ZREM', ALARMS, name) end
  end
end

for _, name in ipairs(names) do examine(name) end
return Repair.report('0', #names, us)
