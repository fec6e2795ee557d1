-- Notes a daemon, worker or listener that is subscribed to its channel. Since when it is there stays as it was noted first.
-- ARGV: its id; JSON of it, without since, and without now, which one with callers gets: when it was noted.
-- Reply: the id of the store, and how many elections there were: where a beat names others, the entry may be lost.
local id, entry = unpack(ARGV)
local _, now = clock()
local ok, before = pcall(cjson.decode, try('HGET', WORKERS, id) or '')
local since = ok and type(before) == 'table' and tonumber(before.since) or now
local noted = string.find(entry, '"callers":', 1, true) and ',"now":' .. text(now) or ''
call('HSET', WORKERS, id, string.sub(entry, 1, -2) .. ',"since":' .. text(since) .. noted .. '}')
return { string.match(STORE, '%S+$'), tonumber(try('GET', EPOCH) or 0) or 0 }
