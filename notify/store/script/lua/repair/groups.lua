-- Checks what is kept of the groups of a topic. Each number has a readable head, and its name has that number; each name has a head; and those that are
-- in a group are messages that name one, and noted as dead if they are. What is missing is made from the records, by records.lua.
-- KEY: the groups of the topic, or the ids in them.
-- ARGV: those of all (shared/repair.lua); the topic; numbers, names or members: what to check, or mend, to look at groups of which nobody is left, as
--   the housekeeping does.
-- Reply: that of all.
local topic, what = ARGV[4], ARGV[5]
local us, now = clock()
if what == 'mend' then
  local _, cursor = Callbacks.mend(topic, '-', ARGV[2], ARGV[3] * 10, now)
  return Repair.report(cursor == '-' and '0' or cursor, 0, us)
end
local next_page, names, values = Repair.page_of(what == 'members' and 'ZSCAN' or 'HSCAN', KEY)

local function is_name(name)
  return #name <= 128 and string.find(name, '^[A-Za-z0-9._:-][A-Za-z0-9._~:-]*$') ~= nil
end

-- The head of a number, if it is as it is written, and made so from what can be read of it.
local function read(n, value)
  local g = n and Groups.read(topic, n)
  if not g or not is_name(g.name) then return nil end
  local right = Groups.head_of(g) == value and g.opened and g.changed
  g.opened, g.changed = g.opened or now, g.changed or now
  return g, right
end

local function examine_last(value)
  if string.find(value, '^%d+$') and tonumber(value) <= LAST then return end
  if Repair.wrong('unreadable', topic, KEY, 'removed, since the next number is found without it') then call('HDEL', KEY, '*') end
end

local function examine_number(field, value)
  if field == '*' then return examine_last(value) end
  local n = tonumber(string.match(field, '^#(%d+)$') or nil)
  local g, right = read(n and '#' .. text(n) == field and n, value)
  if not g then
    if Repair.wrong('unreadable', topic .. ':' .. field, KEY, 'removed, to be made from the records') then call('HDEL', KEY, field) end
    return
  end
  if not right and Repair.wrong('unreadable', topic .. ':' .. g.name, KEY, 'set to what can be read') then call('HSET', KEY, field, Groups.head_of(g)) end
  local other, since = Groups.find(topic, g.name)
  local another = other ~= n and other > 0 and Groups.read(topic, other)
  if another and another.name == g.name then
    if Repair.wrong('of nothing', topic .. ':' .. field, KEY, 'removed, since its name has another number') then call('HDEL', KEY, field) end
  elseif other ~= n or since ~= g.complete then
    if Repair.wrong('index', topic .. ':' .. g.name, KEY, 'set to its number') then
      call('HSET', KEY, g.name, text(n) .. (g.complete and ' ' .. text(g.complete) or ''))
    end
  end
end

local function examine_name(name)
  local n, since = Groups.find(topic, name)
  local g = n > 0 and n <= LAST and Groups.read(topic, n)
  if g and g.name == name then return end
  if is_name(name) and n > 0 and n <= LAST and not g then
    if Repair.wrong('unreadable', topic .. ':' .. name, KEY, 'made anew') then
      call('HSET', KEY, '#' .. text(n), Groups.head_of({ name = name, opened = now, changed = now, complete = since }))
    end
  elseif Repair.wrong('unreadable', topic .. ':' .. name, KEY, 'removed, to be made from the records') then
    call('HDEL', KEY, name)
  end
end

local function examine_member(entry, score)
  local member, n = Groups.member_of(topic, entry), math.floor(score)
  local record = call('HGET', MESSAGES, member)
  local group = record and not Messages.is_done(record) and string.find(record, '"group":"', 1, true) and Messages.options_of(record).group
  local right = n + (try('ZSCORE', dead_of(topic_of(member)), member) and 0.5 or 0)
  if not group then
    if Repair.wrong('of nothing', member, KEY, 'removed') then call('ZREM', KEY, entry) end
  elseif score ~= right and Groups.has(topic, entry, group) and Repair.wrong('index', member, KEY, 'noted as dead, or not, as it is') then
    call('ZADD', KEY, right, entry)
  end
end

for _, name in ipairs(names) do
  if what == 'members' then
    examine_member(name, tonumber(values[name]))
  elseif (string.find(name, '^[#*]') ~= nil) == (what == 'numbers') then
    (what == 'numbers' and examine_number or examine_name)(name, values[name])
  end
end
return Repair.report(next_page, #names, us)
