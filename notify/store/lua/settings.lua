-- Looks at the settings of a topic, or of the store.
-- ARGV: topic, or *.
-- Reply: what is set for it, and for the store; '' where nothing is.
local own, common = settings_of(ARGV[1])
if own == nil then return foreign_counters() end
return { own or '', common or '' }
