-- Notes what the failing endpoint of a push answered last, and when the daemon that asked it asks again. Nobody is told of that: each daemon
-- knows its own. A push that does not fail by now stays as it is.
-- ARGV: the name of the push; ms until then; the answer.
-- Reply: 1, or 0 if the push does not fail.
local name, pause, answer = unpack(ARGV)
if not string.find(call('HGET', PUSHES, name) or '', '"failing":', 1, true) then return { 0 } end
local _, now = clock()
call('HSET', PUSHES, '*' .. name, text(now + tonumber(pause)) .. ' ' .. answer)
return { 1 }
