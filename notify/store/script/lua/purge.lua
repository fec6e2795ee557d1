-- Removes dead letters of a topic for good.
-- ARGV: topic; how many of the oldest; the time in ms up to which these died; or topic, 0, '', then members, each with the time of its
--   death in ms, '' for whenever it died.
-- Reply: how many were removed.
local topic, oldest, last = unpack(ARGV, 1, 3)
oldest = tonumber(oldest)
local dead = dead_of(topic)
local members
if oldest ~= 0 then
  members = call('ZRANGE', dead, '-inf', last, 'BYSCORE', 'LIMIT', 0, oldest)
else
  members = {}
  for i = 4, #ARGV, 2 do
    if Dead.is_dead(topic, ARGV[i], ARGV[i + 1]) then members[#members + 1] = ARGV[i] end
  end
end
if #members == 0 then return { 0 } end
Dead.remove_dead(topic, members)
return { #members }
