-- Changes a push, unless any was changed since the caller read them. What is noted of its last try is forgotten. What it listened under
-- goes with the change: whoever makes that may die behind it.
-- ARGV: how often they were changed until then; the name; its JSON, '' to remove it; the name under which it listens no more, '' for none.
-- Reply: 1, or 0 if one was changed since, and nothing is.
local seen, name, push, obsolete = unpack(ARGV)
if (call('HGET', PUSHES, '*') or '0') ~= seen then return { 0 } end
call('HINCRBY', PUSHES, '*', 1)
if push == '' then call('HDEL', PUSHES, name) else call('HSET', PUSHES, name, push) end
call('HDEL', PUSHES, '*' .. name)
if obsolete ~= '' then Listeners.unregister(obsolete) end
tell(PUSHES, name)
return { 1 }
