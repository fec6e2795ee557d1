-- Pauses a schedule, resumes it, or deletes it: what it made ahead is withdrawn, and what a pause skips is not missed. One that was filled while the
-- clock was ahead is resumed, too: it goes on from now, but does not make again what it notes that it made.
-- ARGV: topic, name, what: pause, resume or delete; and the revision that must be there, '' for any.
-- Reply: changed, unchanged, missing, or conflict, which changes nothing; and its revision, 0 if there is none.
local _, now = clock()
local topic, name, what, expected = unpack(ARGV)
local s = Schedules.read(topic, name)
if not s then return { 'missing', 0 } end
if expected ~= '' and expected ~= text(s.revision) then return { 'conflict', s.revision } end
local is_ahead = what == 'resume' and Schedules.is_ahead(s, now)
if what == 'pause' and s.paused > 0 or what == 'resume' and s.paused == 0 and not is_ahead then return { 'unchanged', s.revision } end
Schedules.revise(s)
s.paused = what == 'pause' and now or 0
if is_ahead then s.fell = math.min(s.fell, math.floor(now / 1000)) end
Schedules.begin_anew(s, now, now, true)
if what == 'delete' then Schedules.forget(topic, name) else Schedules.look_at(topic, name, what == 'resume' and now or nil) end
if what == 'resume' then Schedules.raise_alarm(now) else Schedules.set_alarm() end
return { 'changed', s.revision }
