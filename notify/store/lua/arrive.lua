-- Notes a daemon, worker or listener that is subscribed to its channel. Since when it is there stays as it was noted first.
-- ARGV: its id; JSON of it, without since and now.
-- Reply: the id of the store, and how many elections there were: where a beat names others, the entry may be lost.
local id, entry = unpack(ARGV)
local _, now = clock()
local ok, before = pcall(cjson.decode, try('HGET', WORKERS, id) or '')
local since = ok and type(before) == 'table' and tonumber(before.since) or now
call('HSET', WORKERS, id, string.sub(entry, 1, -2) .. ',"since":' .. text(since) .. ',"now":' .. text(now) .. '}')
return { string.match(STORE, '%S+$'), tonumber(try('GET', EPOCH) or 0) or 0 }
