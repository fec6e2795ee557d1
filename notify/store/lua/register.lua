-- Registers a named listener, unless it is registered already.
-- ARGV: name; pattern; from where in words; from where in us; now is where the logs end.
-- Reply: the registration that holds: pattern, from where in words and in us, up to where nothing is missed, and the id of the
--   store; now in us.
local name, pattern, words, from = unpack(ARGV, 1, 4)
local last, floor = text(last_sent()), '0'
if words == 'now' or tonumber(from) > tonumber(last) then from = last end
if words == 'beginning' then floor = last end
call('HSETNX', LISTENERS, name, table.concat({ pattern, words, from, floor, string.match(STORE, '%S+$') }, ' '))
return { call('HGET', LISTENERS, name), text((clock())) }
