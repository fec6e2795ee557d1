-- Removes dead letters of a topic for good.
-- KEYS[10..13]: ready, waiting, dead and schedule of the topic.
-- ARGV[3]: topic, ARGV[4]: how many of the oldest, and ARGV[5]: ignored; or 0, then ARGV[5..]: members.
-- Reply: how many were removed.
local members
if ARGV[4] ~= '0' then
  members = call('ZRANGE', KEYS[12], 0, ARGV[4] - 1)
else
  members = {}
  for i = 5, #ARGV do
    if call('ZSCORE', KEYS[12], ARGV[i]) then members[#members + 1] = ARGV[i] end
  end
end
if #members == 0 then return { 0 } end
remove_dead(KEYS[12], members)
return { #members }
