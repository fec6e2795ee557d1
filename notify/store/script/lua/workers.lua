-- Reads a page of the daemons, workers and listeners that are there, in no order.
-- ARGV: cursor, how many to read, or some more.
-- Reply: the cursor of the next page, '0' at the end; then id and JSON of each to whose channel somebody is subscribed.
local cursor, most = unpack(ARGV)
local page = try('HSCAN', WORKERS, cursor, 'COUNT', most) or { '0', {} }
local reply = { page[1] }
for i = 1, #page[2], 2 do
  if call('PUBSUB', SHARDED and 'SHARDNUMSUB' or 'NUMSUB', AT .. here_of(page[2][i]))[2] > 0 then
    reply[#reply + 1] = page[2][i]
    reply[#reply + 1] = page[2][i + 1]
  end
end
return reply
