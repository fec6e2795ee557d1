-- Extends the lease of a message for who holds its settle token, which names the receipt that the claim gave. It does not
-- shorten it. So that the token stays good, the receipt that the lease has now is kept as long as the lease, and some longer:
-- it ends only when the carrier takes the message back. Both end at times by Redis's clock: where that is set back they do so
-- together, later.
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
