-- Replaces the secret with which the daemons of a store sign, whatever stands in its place. What was signed with the one before is
-- forgotten.
-- ARGV: the new secret.
-- Reply: nothing.
call('SET', SECRET, ARGV[1])
call('DEL', LOGOUTS)
return {}
