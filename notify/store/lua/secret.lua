-- Returns the secret with which the daemons of a store sign, and makes it if there is none.
-- ARGV: what it shall be if there is none.
-- Reply: the secret.
local random = ARGV[1]
local secret = call('GET', SECRET)
if not secret then
  secret = random
  call('SET', SECRET, secret)
end
return { secret }
