-- Takes over settings of the store that another shard has, if they were changed later than those that are here, or are others of the
-- same time: those that are here were changed by no script.
-- ARGV: these settings, '' if there are none; when they were changed, in us. 0 takes over nothing.
-- Reply: the settings that are here then, and when they were changed; '' and 0 if they never were.
local before, revised = unpack(try('HMGET', TOPICS, '*:settings', '*:revised') or {})
if before == nil then return Counters.foreign_counters() end
revised = Settings.in_range(revised, 0, LAST) or 0
local after, at = ARGV[1], tonumber(ARGV[2])
if at < revised or at == 0 or at == revised and after == (before or '') then return { before or '', text(revised) } end

if after ~= '' then call('HSET', TOPICS, '*:settings', after) else call('HDEL', TOPICS, '*:settings') end
call('HSET', TOPICS, '*:revised', text(at))
Seats.mend_first()
return { after, text(at) }
