-- Registers a named listener, unless it is registered already. While one is registered for deaths these are broadcast.
-- ARGV: name; pattern; where it begins in words, and in us; the word now means the end of the logs.
-- Reply: the registration that holds: pattern, where it begins in words and in us, up to where it misses nothing, and the id of the
--   store; now in us.
local name, pattern, words, from = unpack(ARGV, 1, 4)
local last, floor = text(last_sent()), '0'
if words == 'now' or tonumber(from) > tonumber(last) then from = last end
if words == 'beginning' then floor = last end
if string.sub(pattern, 1, 6) == '$dead.' and not call('HGET', LISTENERS, name) and not try('HINCRBY', HOOKS, pattern, 1) then
  call('HSET', HOOKS, pattern, 1) -- it was foreign
end
call('HSETNX', LISTENERS, name, table.concat({ pattern, words, from, floor, string.match(STORE, '%S+$') }, ' '))
return { call('HGET', LISTENERS, name), text((clock())) }
