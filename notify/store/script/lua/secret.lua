-- Returns the secret with which the daemons of a store sign. The first call writes it.
-- ARGV: the secret to write if there is none.
-- Reply: the secret; a list of the logins that ended before their time, each with the ms until which its cookie would be good, the
--   first of them first.
local random = ARGV[1]
local secret = call('GET', SECRET)
if not secret then
  secret = random
  call('SET', SECRET, secret)
end
return { secret, call('ZRANGE', LOGOUTS, 0, -1, 'WITHSCORES') }
