-- Publishes messages that say what happens if their id is in use, follow a leased one, or keep their id taken after their end: one after
-- the other, each as if alone. What is due at once becomes ready; it is not handed over.
-- ARGV: for each message: topic, member, JSON of what it asks for, its record without its times. The JSON has when: -DELAY, 0 for at
--   once, or DUE, all in ms (as publish.lua); ttl, unique and max_wait in ms; key; drop: it is dropped where it would be blocked; broadcast;
--   marked: its record is to begin with a +; if_exists, missing: refuse; after: it follows one that is leased; group; after_group, TOPIC:GROUP of that
--   which it waits for, and then DUE is the end of all times; on_dead, go if dead ones of that count as ended.
-- Reply: now in ms, then for each message: created, kept, replaced, moved, dropped or refused; its due time in ms (0: it ended, and its id is
--   taken), or why it is refused: -1 to -6 as publish.lua, -7 it is leased, -8 it is dead, -9 the key of extras is foreign, -10 another message
--   waits for the group, -11 it would wait for itself, or behind a minus since when in ms its group is complete, or that which it waits for; the due time
--   before in ms, 0 if there was none; its state, '' if it is refused, but of -10 the other message, and of a complete group TOPIC:GROUP. Then of each
--   that waits for a group its place, from 1 on, and how many of that are left.
local refusal, us, now = Memory.refuse_to_grow()
if refusal then return refusal end
return Conflicts.publish_all(us, now)
