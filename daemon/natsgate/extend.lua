-- Extends the lease of a message for who holds its settle token, which names the receipt that the claim gave. It does not
-- shorten it. So that the token stays good, the receipt that the lease has now is kept as long as the lease, and some longer:
-- it ends only when the carrier takes the message back. Both end at times by Redis's clock: where that is set back they do so
-- together, later.
-- KEYS[10]: where that is kept, behind the one that the claim gave.
-- ARGV[3]: member, ARGV[4]: the receipt that the claim gave, ARGV[5]: lease in ms from now, ARGV[6]: for how many ms longer it is kept.
-- Reply: 1, or 0 if the lease is lost.
local us = clock()
local member, claimed = ARGV[3], ARGV[4]
local receipt = claimed
local was, is = string.match(try('GET', KEYS[10]) or '', '^(%d+) (%d+)$')
if was == claimed then receipt = is end
if call('ZSCORE', LEASED, member) ~= receipt then return { 0 } end
local deadline = math.max(receipt_of(us + ARGV[5] * 1000, digit_of(claimed)), tonumber(receipt))
call('ZADD', LEASED, deadline, member)
call('SET', KEYS[10], claimed .. ' ' .. text(deadline), 'PX', math.ceil((deadline - us) / 1000) + ARGV[6])
return { 1 }
