-- Takes the registration of the archive back, and removes the outbox.
-- ARGV: none.
-- Reply: how many entries were removed.
local entries = try('XLEN', OUTBOX) or 0
try('HDEL', EXTRAS, '*')
call('UNLINK', OUTBOX)
return { entries }
