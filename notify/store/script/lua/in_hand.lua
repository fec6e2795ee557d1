-- Counts the messages in hand by topic and worker, from the lease that ends last on.
-- ARGV: the receipt to go on at, +inf at first; how many leases under it are counted already; how many to look at.
-- Reply: where to go on, as the first two arguments, '' at the end; then topic, worker, how many, and since when in ms and the id of the one that
--   has been leased longest; 0: that is unknown.
local from, skip, most = unpack(ARGV)
local us = clock()
local page = try('ZRANGE', LEASED, from, text(us), 'BYSCORE', 'REV', 'LIMIT', skip, most, 'WITHSCORES') or {}
local reply, counts, holders, oldest, first = { '', 0 }, {}, {}, {}, {}
for i = 1, #page, 2 do
  local topic, receipt = topic_of(page[i]), page[i + 1]
  local claim = topic and topic .. ' ' .. receipt
  if claim and holders[claim] == nil then
    local worker, since = Attempts.holder_of(topic, receipt)
    holders[claim] = worker and { topic .. ' ' .. worker, tonumber(since) } or false
  end
  if claim and holders[claim] then
    local held, since = unpack(holders[claim])
    counts[held] = (counts[held] or 0) + 1
    if since > 0 and since < (oldest[held] or math.huge) then oldest[held], first[held] = since, page[i] end
  end
end
for held, n in pairs(counts) do
  reply[#reply + 1], reply[#reply + 2] = string.match(held, '^(%S+) (%S+)$')
  reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = n, oldest[held] or 0, first[held] and string.match(first[held], ':(.*)$') or ''
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
