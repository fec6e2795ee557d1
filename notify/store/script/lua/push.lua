-- Changes a push, unless any was changed since the caller read them. What is noted of its last try is forgotten. The name under which one
-- of broadcasts listens is registered, or removed, with the change: whoever makes that may die behind it.
-- ARGV: how often they were changed until then; the name; its JSON, '' to remove it; the pattern to which it listens, '' for none; where that
--   begins, in us, '' for now.
-- Reply: 1, or 0 if one was changed since, and nothing is.
local seen, name, push, pattern, from = unpack(ARGV)
if (call('HGET', PUSHES, '*') or '0') ~= seen then return { 0 } end
call('HINCRBY', PUSHES, '*', 1)
if push == '' then call('HDEL', PUSHES, name) else call('HSET', PUSHES, name, push) end
call('HDEL', PUSHES, '*' .. name)
local listener = Listeners.of_push(name)
if pattern ~= '' then
  from = from == '' and text((clock())) or from
  Listeners.register(listener, pattern, 'now', from, from)
elseif call('HGET', LISTENERS, listener) then
  Listeners.unregister(listener)
end
tell(PUSHES, name)
return { 1 }
