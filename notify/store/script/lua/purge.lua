-- Removes dead letters of a topic for good.
-- ARGV: topic, then members, each with the time of its death in ms, '' for whenever it died.
-- Reply: how many were removed.
local topic, members = ARGV[1], {}
for i = 2, #ARGV, 2 do
  if Dead.is_dead(topic, ARGV[i], ARGV[i + 1]) then members[#members + 1] = ARGV[i] end
end
if #members == 0 then return { 0 } end
Dead.remove_dead(topic, members)
return { #members }
