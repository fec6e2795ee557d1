-- Returns the secret with which the daemons of a store sign. The first call writes it.
-- ARGV: the secret to write if there is none.
-- Reply: the secret.
local random = ARGV[1]
local secret = call('GET', SECRET)
if not secret then
  secret = random
  call('SET', SECRET, secret)
end
return { secret }
