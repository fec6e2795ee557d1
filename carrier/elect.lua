-- Elects a carrier if there is none.
-- KEYS[10]: carrier, KEYS[11]: epoch. ARGV[3]: name of the candidate, ARGV[4]: lease in ms, ARGV[5]: the longest one.
-- Reply: 1, its token, the epoch; or 0, the token of who carries, for how many ms its lease lasts at the most.
-- A token is EPOCH SINCE LEASE NAME, both times in ms. The lease ends at a time by Redis's clock: where that was set back, over a
-- crash or not, it would last longer by as much. Who carries renews it all the time, so what is left of it is never more than LEASE.
local _, now = clock()
local holder = call('GET', KEYS[10])
if holder then
  local lease = tonumber(string.match(holder, '^%d+ %d+ (%d+) ') or ARGV[4])
  lease = math.min(lease, tonumber(ARGV[5]))
  local left = call('PTTL', KEYS[10])
  if left < 0 or left > lease then
    call('PEXPIRE', KEYS[10], text(lease))
    left = lease
  end
  return { 0, holder, left }
end
local epoch = call('INCR', KEYS[11])
local token = text(epoch) .. ' ' .. text(now) .. ' ' .. ARGV[4] .. ' ' .. ARGV[3]
call('SET', KEYS[10], token, 'PX', ARGV[4])
return { 1, token, epoch }
