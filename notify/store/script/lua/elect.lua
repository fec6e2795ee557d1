-- Elects a carrier if there is none.
-- ARGV: name of the candidate, lease in ms, the longest lease there may be, how many shards the candidate carries, and the version of its rules
--   of time zones.
-- Reply: 1, its token, the epoch, the position of the last broadcast that was sent; or 0, the token of the elected carrier, for how many ms
--   its lease lasts at the most.
-- A token is EPOCH SINCE LEASE NAME, both times in ms. The lease ends at a time by Redis's clock: if that is set back, during a crash
-- or not, the lease would last longer by as much. The carrier renews it with each beat, so what is left is never more than LEASE.
local name, lease, longest = unpack(ARGV, 1, 3)
local _, now = clock()
local holder = call('GET', CARRIER)
if holder then
  local whole = tonumber(string.match(holder, '^%d+ %d+ (%d+) ') or lease)
  whole = math.min(whole, tonumber(longest))
  local left = call('PTTL', CARRIER)
  if left < 0 or left > whole then
    call('PEXPIRE', CARRIER, text(whole))
    left = whole
  end
  if SHARDED then Standbys.note_standby(name, ARGV[4], now) end
  return { 0, holder, left }
end
local epoch = call('INCR', EPOCH)
local token = text(epoch) .. ' ' .. text(now) .. ' ' .. lease .. ' ' .. name
call('SET', CARRIER, token, 'PX', lease)
if SHARDED then Standbys.forget_standby(name) end
if call('EXISTS', SCHEDULES) == 1 then
  Schedules.set_alarm() -- it may be lost
  if try('HGET', TOPICS, '*:zones') ~= ARGV[5] then Schedules.raise_alarm(now) end
end
return { 1, token, epoch, Logs.last_sent() }
