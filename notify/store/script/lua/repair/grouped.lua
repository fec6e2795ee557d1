-- Checks that topics which have groups are in their index. A repair has no callback come before it has looked at all messages, which may be in these
-- groups.
-- ARGV: those of all (shared/repair.lua); for how many ms it holds the groups of these topics, 0: no longer; topics, or foreign members of the index.
-- Reply: that of all.
local topics = column(5, #ARGV - 4)
local us, now = clock()
local upto = tonumber(ARGV[4]) > 0 and now + ARGV[4] or 0

local function examine(topic)
  local index, may = try('ZSCORE', GROUPED, topic), is_topic(topic) and Groups.home_of(topic) == topic
  local has = may and call('EXISTS', grouped_of(topic), groups_of(topic)) > 0
  if index == nil then return end -- a foreign key, which another step finds
  if has then
    local lacks = not index and Repair.wrong('index', topic, GROUPED, 'added')
    if ARGV[1] == '1' and (index or lacks) then Callbacks.hold(topic, upto) end
  elseif index and Repair.wrong('index', topic, GROUPED, 'removed, since it has no groups') then
    call('ZREM', GROUPED, topic)
  end
end

for _, topic in ipairs(topics) do examine(topic) end
return Repair.report('0', #topics, us)
