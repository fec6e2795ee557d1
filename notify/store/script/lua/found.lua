-- Founds a store if there is none, or only reads whether there is one.
-- KEYS[1]: format, KEYS[2..]: keys of which a store that was used has at least one.
-- ARGV[1]: FORMAT ID of the new store, ARGV[2]: 1 to found it, 0 to read only.
-- Reply: FORMAT ID of the existing store; that of the new one if there is none; '' for a used store without that key.
local store = redis.call('GET', KEYS[1])
if store then return store end
if redis.call('EXISTS', unpack(KEYS, 2)) > 0 then return '' end
if ARGV[2] == '1' then redis.call('SET', KEYS[1], ARGV[1]) end
return ARGV[1]
