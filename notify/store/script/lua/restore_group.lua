-- Restores a group of an export, behind all its messages: what waits for it waits for no more of them.
-- ARGV: topic; JSON of the group: name; opened and complete, in ms; acked, dead, dropped and cancelled; callback. What is missing is not said.
-- Reply: 1; or 0 if it is here, and not being restored, which changes nothing.
local refusal, _, now = Memory.refuse_to_grow()
if refusal then return refusal end
return { Callbacks.restore(ARGV[1], cjson.decode(ARGV[2]), now) and 1 or 0 }
