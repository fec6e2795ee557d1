-- Tells which logs have grown behind a position, a page at a time.
-- KEYS[10]: logs. ARGV[3]: after where, in us, ARGV[4]: how many at the most; then topics, if no others are asked for.
-- Reply: the mark of the store; the position of the last broadcast of all, 0 if there is none, and now in us; then topic and
--   position of its last one of each: by position, where no topics were asked for.
local grown = {}
if #ARGV == 4 then
  grown = try('ZRANGE', KEYS[10], '(' .. ARGV[3], text(LAST), 'BYSCORE', 'LIMIT', 0, ARGV[4], 'WITHSCORES') or {}
end
for i = 5, #ARGV do
  local last = last_sent_to(KEYS[10], ARGV[i])
  if last and last > tonumber(ARGV[3]) then
    grown[#grown + 1] = ARGV[i]
    grown[#grown + 1] = text(last)
  end
end
return { STORE, text(last_sent(KEYS[10])), text((clock())), unpack(grown) }
