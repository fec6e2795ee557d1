-- Sums up the schedules of a shard.
-- Reply: how many there are; for how many ms the carrier should have looked at the first of them; how many occurrences were ever made, were
--   missed, had an id that was in use, and could not be made, once for each time that it was tried; and how often one could not be read.
local _, now = clock()
local sums = try('HMGET', TOPICS, '*:made', '*:missed', '*:taken', '*:refused', '*:unreadable') or {}
local function total(i) return text(tonumber(sums[i] or 0) or 0) end
return { try('ZCARD', SCHEDULES) or 0, math.max(now - (head_of(SCHEDULES) or now), 0), total(1), total(2), total(3), total(4), total(5) }
