-- Who waits for a time: named listeners for leases that ended, topics for their rates, for the ends of their pauses, or to be copied into their
-- branches, groups of which nobody may be left, and schedules that are to be filled.

local HELD = 1000 -- ms until a group is looked at again that a repair holds
local LOOKS, READS = 50, 262144 -- groups that are looked at in a call, and bytes of the records of their callbacks

Alarms.units = 1
Alarms.is_rare = true
Alarms.goes_on = true

function Alarms.may_differ() return current.copying end

function Alarms.key() return ALARMS end

-- Rings for a topic whose rate allows some messages again, or whose pause is over.
local function ring(c, entry, topic)
  call('ZREM', ALARMS, entry)
  local ready = try('ZCARD', ready_of(topic)) or 0
  if ready > 0 then Rings.ring(topic, ready, c.us) end
end

-- Tells of leases of a named listener that ended. A process of its may have died: another process of that name takes the broadcasts; if none
-- listens, the next one that begins does.
local function pass_on(c, name)
  if tell(name_of(name), '') == 0 then
    call('ZREM', ALARMS, name)
  else
    call('ZADD', ALARMS, c.now + 1000, name) -- told again then, if that was lost
  end
end

-- Looks at a group, unless the call did so often enough: then the next one does.
local function look(c, entry, topic, name)
  c.looks, c.reads = (c.looks or 0) + 1, c.reads or 0
  if c.looks > LOOKS or c.reads > READS then return end
  local done, size, held = Callbacks.look(topic, name, c.now)
  c.reads = c.reads + size
  if done then call('ZREM', ALARMS, entry) else call('ZADD', ALARMS, c.now + (held and HELD or Move.LATER), entry) end
end

function Alarms.carry(c)
  local ended = Move.due_in(ALARMS, c.now, c.slow)
  for i = 1, #ended, 2 do
    local topic = Pauses.ending_in(ended[i])
    local of, group = Callbacks.group_in(ended[i])
    local copied = Rings.copied_in(ended[i])
    if group then
      look(c, ended[i], of, group)
    elseif copied then
      Branches.copy(c, ended[i], copied)
    elseif Schedules.is_alarm(ended[i]) then
      if not c.settle and Schedules.ring(c.now) then c.fill = 1 end
    elseif topic then
      if Pauses.finish(topic, c.now) then ring(c, ended[i], topic) end
    else
      topic = Rings.throttled_in(ended[i])
      if topic then ring(c, ended[i], topic) else pass_on(c, ended[i]) end
    end
  end
end
