-- Extends the lease of a message for a client that has its settle token, which holds the receipt of the claim. It does not shorten
-- the lease. So that the token stays valid, the current receipt is kept as long as the lease and some longer, since the lease ends
-- only when the carrier takes the message back. Both end at times by Redis's clock: if that is set back both end later.
-- ARGV: member, the receipt that the claim gave, lease in ms from now, for how many ms longer the receipt is kept.
-- Reply: 1, or 0 if the lease is lost.
local member, claimed, lease, longer = unpack(ARGV, 1, 4)
local us = clock()
local kept, receipt = extended_of(member), claimed
local was, is = string.match(try('GET', kept) or '', '^(%d+) (%d+)$')
if was == claimed then receipt = is end
if call('ZSCORE', LEASED, member) ~= receipt then return { 0 } end
local deadline = math.max(receipt_of(us + lease * 1000, digit_of(claimed)), tonumber(receipt))
put_leased({ deadline, member })
call('SET', kept, claimed .. ' ' .. text(deadline), 'PX', math.ceil((deadline - us) / 1000) + longer)
return { 1 }
