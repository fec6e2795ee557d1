-- Reads the settings of a topic, or of the store.
-- ARGV: topic, or *.
-- Reply: the settings of the topic, and of the store; '' if there are none.
local own, common = Settings.settings_of(ARGV[1])
if own == nil then return Counters.foreign_counters() end
return { own or '', common or '' }
