-- Tells which logs have grown behind a position, a page at a time.
-- KEYS[10]: logs. ARGV[3]: after where, in us, ARGV[4]: how many at the most.
-- Reply: the position of the last broadcast of all, 0 if there is none, and now in us; then topic and position of its last
--   one of each, by position.
local grown = try('ZRANGE', KEYS[10], '(' .. ARGV[3], text(LAST), 'BYSCORE', 'LIMIT', 0, ARGV[4], 'WITHSCORES') or {}
return { text(last_sent(KEYS[10])), text((clock())), unpack(grown) }
