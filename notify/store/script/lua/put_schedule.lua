-- Puts a schedule into a topic, or changes the one of its name: what it made ahead is withdrawn, and it goes on from now, or where it was, if
-- its times are as before and it had not made all of its count. One that is there as it is put stays as it is. One at its end is changed but
-- for its times: it may be run by hand.
-- ARGV: topic, name, what is put (see shared/schedules.lua), the revision that must be there: 0 for none, '' for any or none; and the last time at
--   which it fires, in seconds, '' if it goes on for good.
-- Reply: created, changed, unchanged, or what changes nothing: conflict, or over, since it would never fire, and is new or has other times; and its
--   revision, 0 if there is none.
local refusal, _, now = Memory.refuse_to_grow()
if refusal then return refusal end
local topic, name, rule, expected, last = unpack(ARGV)
local before, s = try('HGET', rules_of(topic), name), Schedules.read(topic, name)
if before == nil or not s and try('HLEN', schedules_of(topic)) == nil then return Schedules.foreign(topic) end
if expected ~= '' and expected ~= text(s and s.revision or 0) then return { 'conflict', s and s.revision or 0 } end
if s and before == rule then return { 'unchanged', s.revision } end
local is_as_before = before and Schedules.have_same_times(before, rule)
if last ~= '' and tonumber(last) * 1000 <= now and not (s and is_as_before) then return { 'over', s and s.revision or 0 } end
local outcome = s and 'changed' or 'created'
s = s or Schedules.new(topic, name)
Schedules.revise(s)
local goes_on = is_as_before and s.paused == 0 and not Schedules.has_made_all(s, before)
Schedules.begin_anew(s, now, goes_on and s.cursor * 1000 or now)
call('HSET', rules_of(topic), name, rule)
Schedules.look_at(topic, name, s.paused == 0 and now or nil)
if s.paused == 0 then Schedules.raise_alarm(now) end
return { outcome, s.revision }
