-- Checks records: their keys must be noted, they must be in the groups that they name, and groups must know what waits for them; messages that
-- have no place wait until they were due first, or are made ready, as due now, and broadcasts without one, of which that is not known, wait for the
-- carrier, due now.
-- Those of ids that stay taken must be in the set of these.
-- Records with a foreign name are only reported.
-- ARGV: those of all (shared/repair.lua).
-- Reply: that of all.
local us, now = clock()
local next_page, members, records = Repair.page_of('HSCAN', MESSAGES)

local function send(topic, member)
  local head = head_of(BROADCASTS)
  if not try('ZADD', BROADCASTS, now, member) then return Repair.cannot_repair() end
  Counters.count(topic, 'broadcasts', 1)
  Counters.remember(topic)
  Rings.nudge(now, head)
end

local function make_ready(topic, member)
  local ready = Seats.put_ready(topic, { now, member }, now)
  if not ready then return Repair.cannot_repair() end
  Counters.remember(topic)
  if ready > 0 then Rings.ring(topic, ready, us) end
end

local function schedule(topic, member, due)
  if not Places.put_scheduled(topic, { text(due), member }, due) then return Repair.cannot_repair() end
  Counters.remember(topic)
end

local function keep_until(member, time)
  if not try('ZADD', TAKEN, text(time), member) then Repair.cannot_repair() end
end

-- Puts one that is kept among those of its topic again.
local function keep_of(topic, member, time)
  if not try('ZADD', done_of(topic), text(time), member) then return Repair.cannot_repair() end
  try('ZADD', DONE, 'LT', text(time), topic)
end

local function examine(topic, member)
  local record = call('HGET', MESSAGES, member)
  if topic == '' then
    Repair.wrong('foreign record', member, MESSAGES, '')
  elseif Messages.is_done(record) then
    local time = Messages.taken_until(record)
    if Messages.is_kept(record) and try('ZSCORE', done_of(topic), member) == false then
      if Repair.wrong('not taken', member, MESSAGES, 'put among those that are kept') then keep_of(topic, member, time) end
    end
    if try('ZSCORE', TAKEN, member) then return end
    if Repair.wrong('not taken', member, MESSAGES, 'kept taken as long as it says') then keep_until(member, time) end
  elseif Messages.options_of(record).broadcast then
    if Repair.wrong('no place', member, MESSAGES, 'sent, as due now') then send(topic, member) end
  else
    local due = math.min(Messages.first_due_of(record) or now, MAX)
    if due > now then
      if Repair.wrong('no place', member, MESSAGES, 'scheduled for when it was due first') then schedule(topic, member, due) end
    elseif Repair.wrong('no place', member, MESSAGES, 'made ready, as due now') then
      make_ready(topic, member)
    end
  end
end

-- Checks that the key of a message is noted.
local function examine_key(topic, member, record)
  local key = string.find(record, '"key":', 1, true) and not Messages.is_done(record) and Messages.options_of(record).key
  if not key or Seats.key_of(topic, member) == key then return end
  if Repair.wrong('index', member, keys_of(topic), 'set to the key in its record') then
    Seats.note(topic, { string.sub(member, #topic + 2), key })
  end
end

-- Checks that a message which names a group is in that. The group is held while others of it may be missing.
local function examine_group(topic, member, record, is_dead)
  local name = string.find(record, '"group":"', 1, true) and not Messages.is_done(record) and Messages.options_of(record).group
  local id = string.sub(member, #topic + 2)
  if not name or Groups.has(topic, id, name) or Groups.are_foreign(topic) then return end
  if Repair.wrong('index', member, grouped_of(topic), 'put into the group in its record') then
    Callbacks.hold(topic, now + Repair.HELD_FOR)
    Groups.join(topic, { id, name, died = { [id] = is_dead } }, now)
  end
end

-- Checks that the group for which a message waits has that come.
local function examine_callback(topic, member, record)
  local waits = string.find(record, '"after_group":"', 1, true) and not Messages.is_done(record) and Messages.first_due_of(record) == MAX
  local options = waits and try('ZSCORE', scheduled_of(topic), member) and Messages.options_of(record)
  local of, name = string.match(options and options.after_group or '', '^([^:]+):(.+)$')
  if not of or not is_topic(of) or Callbacks.waits_for(member, of, name, options) or Groups.are_foreign(of) then return end
  local other = Callbacks.other(member, of, name)
  if not Repair.wrong('no group', member, groups_of(of), other and '' or 'named there') or other then return end
  Callbacks.hold(of, now + Repair.HELD_FOR)
  Callbacks.await_again({ member = member, after_group = options.after_group, on_dead = options.on_dead }, now)
end

for topic, list in pairs(Repair.members_by_topic(members)) do
  for _, member in ipairs(topic ~= '' and list or {}) do examine_key(topic, member, records[member]) end
  for i, where in ipairs(Repair.places_with(topic, list)) do
    if topic ~= '' then examine_group(topic, list[i], records[list[i]], where[1] == dead_of(topic)) end
    if #where == 0 then examine(topic, list[i]) end
    if topic ~= '' then examine_callback(topic, list[i], records[list[i]]) end
  end
end
return Repair.report(next_page, #members, us)
