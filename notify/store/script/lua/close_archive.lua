-- Takes the registration of the archive back, and removes the stream of endings.
-- ARGV: none.
-- Reply: how many entries were removed.
local entries = try('XLEN', ENDINGS) or 0
try('HDEL', EXTRAS, '*')
call('UNLINK', ENDINGS)
return { entries }
