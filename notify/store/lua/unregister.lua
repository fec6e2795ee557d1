-- Removes a named listener.
-- ARGV: name.
-- Reply: 1, or 0 if there is none of that name.
local name = ARGV[1]
local there = call('HDEL', LISTENERS, name)
try('ZREM', HANDED, name)
call('DEL', places_of(name), held_of(name), tries_of(name))
tell(name_of(name), '')
return { there }
