-- Notes that a login to the console ended before its time.
-- ARGV: its id; the ms until which its cookie would be good; how many are noted at most; for how many ms more, since clocks differ.
-- Reply: nothing.
local id, good, most, more = unpack(ARGV)
local _, now = clock()
call('ZADD', LOGOUTS, good, id)
local old = call('ZCOUNT', LOGOUTS, '-inf', text(now - more))
if old > 0 then call('ZREMRANGEBYRANK', LOGOUTS, 0, old - 1) end
call('ZREMRANGEBYRANK', LOGOUTS, 0, -most - 1)
local left = good - now + more
if left > call('PTTL', LOGOUTS) then call('PEXPIRE', LOGOUTS, text(left)) end
return {}
