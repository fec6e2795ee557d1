-- Removes a named listener.
-- ARGV: name.
-- Reply: 1, or 0 if there is none of that name.
local name = ARGV[1]
local pattern = string.match(call('HGET', LISTENERS, name) or '', '^%S+') or ''
local there = call('HDEL', LISTENERS, name)
if there == 1 and string.sub(pattern, 1, 6) == '$dead.' and (try('HINCRBY', HOOKS, pattern, -1) or 0) <= 0 then
  try('HDEL', HOOKS, pattern)
end
try('ZREM', HANDED, name)
call('DEL', places_of(name), held_of(name), tries_of(name), owners_of(name))
tell(name_of(name), '')
return { there }
