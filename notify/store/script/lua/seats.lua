-- Lists the messages that have the seats of keys.
-- ARGV: topic, at most how many of each key, keys.
-- Reply: of each key a list of four for each message: id, state, '' if it has no place, the worker that has a leased one, '' if that is
--   unknown, and since when in ms.
local topic, most = ARGV[1], tonumber(ARGV[2])
local reply = {}
for k, key in ipairs(column(3, #ARGV - 2)) do
  local all = {}
  for _, word in ipairs(Seats.holders(topic, key)) do
    local id = string.gsub(word, '!', '')
    local state, time = Describe.place_of(topic, topic .. ':' .. id)
    local worker, since
    if state == 'leased' then worker, since = Attempts.holder_of(topic, time) end
    all[#all + 1], all[#all + 2], all[#all + 3], all[#all + 4] = id, state, worker or '', since or '0'
    if #all == 4 * most then break end
  end
  reply[k] = all
end
return reply
