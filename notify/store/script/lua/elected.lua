-- Describes the elected carrier.
-- ARGV: none.
-- Reply: its token, '' if none is elected; for how many ms its lease lasts; when the next message is due, and the next broadcast, in ms, '' if
--   none is scheduled.
local function first(place) return call('ZRANGE', place, 0, 0, 'WITHSCORES')[2] or '' end
return { call('GET', CARRIER) or '', call('PTTL', CARRIER), first(SCHEDULED), first(BROADCASTS) }
