-- Removes entries of the stream of endings that were stored elsewhere.
-- ARGV: the id of the last of them.
-- Reply: 1 if there may be more to remove: call it again.
local upto = ARGV[1]
local MOST = 2000 -- entries that one call removes
if call('XTRIM', ENDINGS, 'MINID', '~', upto, 'LIMIT', MOST) >= MOST / 2 then return { 1 } end
call('XTRIM', ENDINGS, 'MINID', upto) -- those of one node that are left
call('XDEL', ENDINGS, upto)
return { 0 }
