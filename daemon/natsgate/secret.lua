-- Returns the secret with which the daemons of a store sign, and makes it if there is none.
-- KEYS[10]: secret. ARGV[3]: what it shall be if there is none.
-- Reply: the secret.
local secret = call('GET', KEYS[10])
if not secret then
  secret = ARGV[3]
  call('SET', KEYS[10], secret)
end
return { secret }
