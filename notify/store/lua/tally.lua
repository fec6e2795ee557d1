-- Counts the members of places of topics.
-- ARGV: the due time in ms from and to which scheduled and ready ones count, or ''; how many places; their names; then the topics.
-- Reply: now in ms, and how many.
local from, to, n = unpack(ARGV, 1, 3)
local places, topics = column(4, tonumber(n)), column(4 + n, #ARGV - 3 - n)
local total = 0
for _, place in ipairs(places) do
  local by_score = (place == 'schedule:' or place == 'ready:') and from .. to ~= ''
  for _, topic in ipairs(topics) do
    local members
    if string.sub(place, -1) ~= ':' then
      members = tonumber(try('HGET', TOPICS, topic .. ':' .. place) or 0)
    elseif by_score then
      members = try('ZCOUNT', place_named(place, topic), from == '' and '-inf' or from, to == '' and '+inf' or to)
    else
      members = try('ZCARD', place_named(place, topic))
    end
    total = total + math.max(members or 0, 0)
  end
end
local _, now = clock()
return { now, text(total) }
