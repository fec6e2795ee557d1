-- Reads a schedule of a topic.
-- ARGV: topic, name.
-- Reply: what was put, its state as it is shown (see shared/schedules.lua), and when the carrier looks at it, in ms, '' if it does not; '' if there is none.
local topic, name = unpack(ARGV)
local rule, state = try('HGET', rules_of(topic), name), try('HGET', schedules_of(topic), name)
if not rule or not state then return { '' } end
local _, now = clock()
local at = try('ZSCORE', SCHEDULES, topic .. ':' .. name)
return { rule, Schedules.shown(topic, name, state, now, math.huge), at and at ~= 'inf' and at or '' }
