-- Finds the logs that have grown behind a position, a page at a time.
-- ARGV: the position, in us; how many at the most; then topics, to check only these.
-- Reply: the mark of the store; the position of the last broadcast of all, 0 if there is none, and now in us; then of each log the
--   topic and the position of its last one: by position if no topics were given.
local after, most = unpack(ARGV, 1, 2)
local topics = column(3, #ARGV - 2)
local grown = {}
if #topics == 0 then
  grown = try('ZRANGE', LOGS, '(' .. after, text(LAST), 'BYSCORE', 'LIMIT', 0, most, 'WITHSCORES') or {}
end
for _, topic in ipairs(topics) do
  local last = Logs.last_sent_to(topic)
  if last and last > tonumber(after) then
    grown[#grown + 1] = topic
    grown[#grown + 1] = text(last)
  end
end
return { STORE, text(Logs.last_sent()), text((clock())), unpack(grown) }
