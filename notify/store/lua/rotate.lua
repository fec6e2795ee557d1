-- Replaces the secret with which the daemons of a store sign, whatever stands in its place.
-- ARGV: the new secret.
-- Reply: nothing.
call('SET', SECRET, ARGV[1])
return {}
