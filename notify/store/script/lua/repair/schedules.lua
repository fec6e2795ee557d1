-- Checks the schedules of a topic, or the index of all: each has a state, what was put, and an entry in the index, which has nothing else; and the
-- carrier looks at the first of all in time. One that lost its state goes on from now; one of which only the state is left makes nothing.
-- KEY: the states of the topic's schedules, or what was put, or the index of all.
-- ARGV: those of all (shared/repair.lua); the topic, '' for the index.
-- Reply: that of all.
local topic = ARGV[4]
local us, now = clock()
local next_page, names = Repair.page_of(KEY == SCHEDULES and 'ZSCAN' or 'HSCAN', KEY)

local function examine_state(name)
  local member = topic .. ':' .. name
  if try('HGET', rules_of(topic), name) == false then
    if Repair.wrong('of nothing', member, KEY, 'removed') then Schedules.forget(topic, name) end
  elseif try('ZSCORE', SCHEDULES, member) == false and Repair.wrong('index', member, SCHEDULES, 'added') then
    local is_paused = Schedules.read(topic, name).paused > 0
    Schedules.look_at(topic, name, not is_paused and now or nil)
    if not is_paused then Schedules.raise_alarm(now) end
  end
end

local function examine_rule(name)
  if try('HGET', schedules_of(topic), name) ~= false then return end
  if not Repair.wrong('index', topic .. ':' .. name, schedules_of(topic), 'added, to go on from now') then return end
  local s = Schedules.new(topic, name)
  Schedules.revise(s)
  Schedules.begin_anew(s, now, now)
  Schedules.look_at(topic, name, now)
  Schedules.raise_alarm(now)
end

local function examine_entry(member)
  local of, name = string.match(member, '^([^:]+):(.+)$')
  if of and (try('HGET', schedules_of(of), name) ~= false or try('HGET', rules_of(of), name) ~= false) then return end
  if Repair.wrong('index', member, KEY, 'removed') then call('ZREM', KEY, member) end
end

local function examine_alarm()
  local first, at = head_of(SCHEDULES) or math.huge, Schedules.alarm()
  if first == math.huge or at == nil or at and at <= math.max(first, now + 1000) then return end
  if Repair.wrong('index', '/', ALARMS, 'set to when the first schedule is looked at') then Schedules.set_alarm() end
end

local examine = KEY == SCHEDULES and examine_entry or KEY == rules_of(topic) and examine_rule or examine_state
for _, name in ipairs(names) do examine(name) end
if KEY == SCHEDULES and ARGV[2] == '0' then examine_alarm() end
return Repair.report(next_page, #names, us)
