-- Counts the messages in hand by topic and worker, from the lease that ends last on.
-- ARGV: the receipt to go on at, +inf at first; how many leases under it are counted already; how many to look at.
-- Reply: where to go on, as the first two arguments, '' at the end; then topic, worker and how many.
local from, skip, most = unpack(ARGV)
local us = clock()
local page = try('ZRANGE', LEASED, from, text(us), 'BYSCORE', 'REV', 'LIMIT', skip, most, 'WITHSCORES') or {}
local reply, counts, holders = { '', 0 }, {}, {}
for i = 1, #page, 2 do
  local topic, receipt = topic_of(page[i]), page[i + 1]
  local claim = topic and topic .. ' ' .. receipt
  if claim and holders[claim] == nil then holders[claim] = Attempts.holder_of(topic, receipt) or false end
  if claim and holders[claim] then
    local held = topic .. ' ' .. holders[claim]
    counts[held] = (counts[held] or 0) + 1
  end
end
for held, n in pairs(counts) do
  reply[#reply + 1], reply[#reply + 2] = string.match(held, '^(%S+) (%S+)$')
  reply[#reply + 1] = n
end
if #page == 2 * most then
  local last, same = page[#page], 0
  for i = #page, 2, -2 do
    if page[i] ~= last then break end
    same = same + 1
  end
  reply[1], reply[2] = last, last == from and skip + same or same
end
return reply
