-- Registers a named listener, unless it is registered already.
-- KEYS[10]: logs, KEYS[11]: listeners.
-- ARGV[3]: name, ARGV[4]: pattern, ARGV[5]: from where in words, ARGV[6]: from where in us; now is where the logs end.
-- Reply: the registration that holds: pattern, from where in words and in us, up to where nothing is missed, and the id of the
--   store; now in us.
local last = text(last_sent(KEYS[10]))
local from, floor = ARGV[6], '0'
if ARGV[5] == 'now' or tonumber(from) > tonumber(last) then from = last end
if ARGV[5] == 'beginning' then floor = last end
call('HSETNX', KEYS[11], ARGV[3], table.concat({ ARGV[4], ARGV[5], from, floor, string.match(STORE, '%S+$') }, ' '))
return { call('HGET', KEYS[11], ARGV[3]), text((clock())) }
