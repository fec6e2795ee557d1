-- Forgets a named listener.
-- KEYS[10]: listeners, KEYS[11]: handed, KEYS[12]: places, KEYS[13]: held, KEYS[14]: tries. ARGV[3]: name, ARGV[4]: its channel.
-- Reply: 1, or 0 if there is none of that name.
local there = call('HDEL', KEYS[10], ARGV[3])
try('ZREM', KEYS[11], ARGV[3])
call('DEL', KEYS[12], KEYS[13], KEYS[14])
tell(ARGV[4], '')
return { there }
