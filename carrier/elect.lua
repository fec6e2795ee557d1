-- Elects a carrier if there is none.
-- KEYS[10]: carrier, KEYS[11]: epoch. ARGV[3]: name of the candidate, ARGV[4]: lease in ms.
-- Reply: 1, its token, the epoch; or 0, the token of who carries, for how many ms its lease lasts.
local _, now = clock()
local holder = call('GET', KEYS[10])
if holder then
  local left = call('PTTL', KEYS[10])
  if left < 0 then -- somebody else's doing: a lease always ends
    call('PEXPIRE', KEYS[10], ARGV[4])
    left = tonumber(ARGV[4])
  end
  return { 0, holder, left }
end
local epoch = call('INCR', KEYS[11])
local token = text(epoch) .. ' ' .. text(now) .. ' ' .. ARGV[3]
call('SET', KEYS[10], token, 'PX', ARGV[4])
return { 1, token, epoch }
