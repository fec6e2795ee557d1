-- Reads a schedule of a topic.
-- ARGV: topic, name.
-- Reply: what was put, its state (see shared/schedules.lua), and when the carrier looks at it, in ms, '' if it does not; '' if there is none.
local topic, name = unpack(ARGV)
local rule, state = try('HGET', rules_of(topic), name), try('HGET', schedules_of(topic), name)
if not rule or not state then return { '' } end
local at = try('ZSCORE', SCHEDULES, topic .. ':' .. name)
return { rule, state, at and at ~= 'inf' and at or '' }
