-- Lists keys of a topic of which messages are blocked, by the due time of the first.
-- ARGV: topic, how many to skip, how many to list.
-- Reply: how many there are; and of each the key, how many messages are blocked, and the due time of the first.
local topic, from, n = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local heads = try('ZRANGE', heads_of(topic), from, from + n - 1, 'WITHSCORES') or {}
local reply = { try('ZCARD', heads_of(topic)) or 0 }
for i = 1, #heads, 2 do
  reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = heads[i], Seats.count_blocked(topic, heads[i]), heads[i + 1]
end
return reply
