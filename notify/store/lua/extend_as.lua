-- Extends the lease of a message for a client that has its settle token, which holds the receipt of the claim. It does not shorten
-- the lease, and does not go beyond the timeout of the try. So that the token stays valid, the current receipt is kept as long as the
-- lease and some longer, since the lease ends only when the carrier takes the message back. Both end at times by Redis's clock: if that
-- is set back both end later.
-- ARGV: member, the receipt that the claim gave, lease in ms from now unless the message has its own, for how many ms longer the
--   receipt is kept.
-- Reply: 1, or 0 if the lease is lost.
local member, claimed, lease, longer = unpack(ARGV, 1, 4)
local us = clock()
local kept, receipt = extended_of(member), claimed
local was, is = string.match(try('GET', kept) or '', '^(%d+) (%d+)$')
if was == claimed then receipt = is end
if call('ZSCORE', LEASED, member) ~= receipt then return { 0 } end
local noted = call('EXISTS', EXTRAS) == 1 and try('HGET', EXTRAS, member)
local ends = end_of(us, extra(noted, 'lease') or lease, noted)
local deadline = math.max(receipt_of(ends, digit_of(claimed)), tonumber(receipt))
if call('EXISTS', CLAIMS) == 1 then
  local topic = topic_of(member)
  local holder, since = holder_after(topic, tonumber(receipt), '')
  local base = deadline - deadline % 10
  if holder then note_holders({ text(base), entry_of(base, since, topic, holder) }) end
end
put_leased({ deadline, member })
call('SET', kept, claimed .. ' ' .. text(deadline), 'PX', math.max(math.ceil((deadline - us) / 1000) + longer, 1))
return { 1 }
