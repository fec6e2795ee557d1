-- Restores a schedule of an export, as far as it was there, unless one of its name is here. What it made ahead is restored before, as messages. If
-- that was made by an older version of the rules of time zones than schedules here, it is made anew.
-- ARGV: topic, name, what was put and its state (see shared/schedules.lua), and the version, '' if it is unknown.
-- Reply: created; unchanged, if it is here as it was put there; or other, which changes nothing.
local refusal, _, now = Memory.refuse_to_grow()
if refusal then return refusal end
local topic, name, rule, state, version = unpack(ARGV)
local before, s = try('HGET', rules_of(topic), name), Schedules.read(topic, name)
if before == nil or not s and try('HLEN', schedules_of(topic)) == nil then return Schedules.foreign(topic) end
if s then return { before == rule and 'unchanged' or 'other' } end
call('HSET', schedules_of(topic), name, state)
s = Schedules.read(topic, name)
Schedules.revise(s)
Schedules.write(s)
call('HSET', rules_of(topic), name, rule)
Schedules.look_at(topic, name, s.paused == 0 and now or nil)
if s.paused == 0 then Schedules.raise_alarm(now) end
local known = try('HGET', TOPICS, '*:zones') or ''
if known == '' and version ~= '' then
  call('HSET', TOPICS, '*:zones', version)
elseif version < known then
  Schedules.renew(topic, name, now)
end
return { 'created' }
