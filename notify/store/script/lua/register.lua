-- Registers a named listener, unless it is registered already. While one is registered for deaths these are broadcast.
-- ARGV: name; pattern; where it begins in words, and in us: at the end of the logs at the latest; in another shard than the first when
--   the name was registered there, in us.
-- Reply: the registration that holds: pattern, where it begins in words; of several shards when the name was registered in the first
--   one, in us; where it begins in us, up to where it misses nothing, and the id of the store; now in us.
local name, pattern, words, from = unpack(ARGV, 1, 4)
local last, floor, now = text(Logs.last_sent()), '0', text((clock()))
if tonumber(from) > tonumber(last) then from = last end
if words == 'beginning' then floor = last end
local beginning = words .. ' ' .. (ARGV[5] or now)
if string.sub(pattern, 1, 6) == '$dead.' and not call('HGET', LISTENERS, name) and not try('HINCRBY', HOOKS, pattern, 1) then
  call('HSET', HOOKS, pattern, 1) -- it was foreign
end
call('HSETNX', LISTENERS, name, table.concat({ pattern, SHARDED and beginning or words, from, floor, string.match(STORE, '%S+$') }, ' '))
return { call('HGET', LISTENERS, name), now }
