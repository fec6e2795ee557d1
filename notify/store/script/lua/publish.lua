-- Publishes messages: those due later go into the scheduled set of their topic, and those due already into its ready set, or into the
-- scheduled set if something of the topic is overdue. Broadcasts wait for the carrier in any case: it alone writes the logs, so they
-- are sent in the order of their due times.
-- ARGV: number of topics; then topic and number of its messages for each; then for each message, topic by topic:
--   member; when: -DELAY, 0 for at once, or DUE, all in ms, followed by /TTL if it has one, or behind * for a broadcast, and by
--   #KEY if it has a key, by @GROUP if it is in a group, all behind ! if its record is to begin with a +; its record without its times. DUE
--   in the past means now except for broadcasts, and a time to live counts from DUE. For a message from an export, when is JSON of what it
--   had there: due, expires, broadcast, marked (its record is to begin with a +), key, group, after_group, on_dead, waits (for that
--   group, still), times (of its record; missing: those of now), used (attempts), extras (how many bytes behind its record are what is noted of it); or died and reason of a
--   dead letter.
-- Reply: now in ms, then for each message its due time in ms, -1 if the id is in use, -2 if it is due past the year 9999,
--   -3 if the ready set of its topic is foreign, -4 if the set of all broadcasts is, -5 if the scheduled set of its topic or the set
--   of all topics that have one is, -6 if the dead letters of its topic are; or behind a minus since when in ms its group is complete; or, of one
--   from an export, -10 and -11 as publish_as.lua. Then 1 if it was handed over, which happens to one alone; or of
--   each that is blocked by another of its key its place, from -1 down.
local refusal, us, now = Memory.refuse_to_grow()
if refusal then return refusal end
return Batch.publish(us, now)
