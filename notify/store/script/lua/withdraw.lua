-- Forgets that a carrier stands by, since it stops.
-- ARGV: its name.
-- Reply: how many it forgot.
return { Standbys.forget_standby(ARGV[1]) }
