-- Founds a store where there is none, or looks whether there is one.
-- KEYS[1]: format, KEYS[2..]: keys that a store holds which was in use.
-- ARGV[1]: FORMAT ID of the new store, ARGV[2]: 1 to found it, 0 to look only.
-- Reply: FORMAT ID of the store that there is; that of the new one if there is none; '' where one is in use that does not tell.
local store = redis.call('GET', KEYS[1])
if store then return store end
if redis.call('EXISTS', unpack(KEYS, 2)) > 0 then return '' end
if ARGV[2] == '1' then redis.call('SET', KEYS[1], ARGV[1]) end
return ARGV[1]
