-- A call of the elected carrier: it carries what is due in each place.

-- The places in the order in which they are carried. Each has its key and how many units its scores have in a ms; may_differ, if what was
-- carried before it may change it; goes_on, if it is carried before schedules are settled, too; is_rare, if often nothing is in it; is_timed,
-- if how late it is carried counts; and carry.
local PLACES = { Lapsed, Expired, Due, Broadcasts, Alarms }

-- When the first in a place is due, in us.
local function next_in(place)
  local head = head_of(place.key())
  return head and head * (1000 / place.units) or math.huge
end

-- Begins a call: looks at the time, and when the first in each place is due, and in any of them.
function Carry.begin(beats)
  local us, now = clock()
  current.carries = true
  local c = { us = us, now = now, beats = beats, moved = 0, heads = {}, first = math.huge }
  -- Often nothing has a time to live, and nothing is broadcast: one look finds that. Only beats read the last four.
  c.rare = beats and call('EXISTS', EXPIRIES, BROADCASTS, ALARMS, KEYED, READY, LOGS, TAKEN, ENDINGS)
    or call('EXISTS', EXPIRIES, BROADCASTS, ALARMS, KEYED)
  if beats and c.rare > 0 and (try('XLEN', ENDINGS) or 0) > 0 then tell(ENDINGS, '') end -- the archive may have missed a ring
  for i = 1, #PLACES do
    local place = PLACES[i]
    local head = (c.rare > 0 or not place.is_rare) and next_in(place) or math.huge
    c.heads[place] = head
    if head < c.first then c.first = head end
  end
  return c
end

-- Carries what is due in a place.
local function carry(c, place)
  if place.may_differ and place.may_differ(c) then c.heads[place] = next_in(place) end
  local head = c.heads[place]
  if head > c.us then return end
  c.changed = true
  c.keyed = c.keyed or current.keyed
  if place.is_timed then c.earliest = math.min(c.earliest or head, head) end
  place.carry(c)
  if #current.heirs > 0 then Move.publish_heirs(c) end
  c.heads[place] = next_in(place)
end

-- Carries what is due in all places.
function Carry.carry_all(c)
  c.batch = math.max(tonumber(ARGV[4]), 2) -- at least one for the topic furthest behind, and one for that least behind
  c.slow = math.ceil(c.batch / 5) -- leases, and expiries, take longer than a message
  c.keep_count, c.keep_age = ARGV[5], tonumber(ARGV[6])
  c.keyed = c.rare > 0 and call('EXISTS', KEYED) == 1
  c.handed, c.lapsed, c.runs, c.buried, c.dropped = 0, 0, {}, {}, {}
  for _, place in ipairs(PLACES) do
    if not c.settle or place.goes_on then carry(c, place) end
  end
  c.first = math.huge
  for _, place in ipairs(PLACES) do c.first = math.min(c.first, c.heads[place]) end
end

-- What carry.lua replies by name, in the order of its reply. Lists that are empty are left out, and numbers that are 0
-- but for kept.
local PARTS = { 'moved', 'handed', 'lapsed', 'runs', 'buried', 'dropped', 'cursor', 'kept', 'repeated', 'evicts', 'taker', 'totals', 'fill', 'settle' }

-- The reply of carry.lua.
function Carry.answer(c)
  if c.beats and current.copying then c.first = math.min(c.first, next_in(Alarms)) end -- the beat may have found more to copy
  local wait = c.first < math.huge and math.max(math.min(c.first, LAST) - c.us, 0) or -1 -- a foreign time may be past what Go reads
  local reply = { 1, wait, c.us }
  if c.moved > 0 or not c.beats then reply[4], reply[5] = 'took', clock() - c.us end
  if c.moved > 0 and c.earliest then reply[6], reply[7] = 'earliest', text(c.earliest / 1000) end
  if not c.changed and not c.beats then return reply end
  for _, name in ipairs(PARTS) do
    local value = c[name]
    if value and (value ~= 0 or name == 'kept') and (type(value) ~= 'table' or value[1]) then reply[#reply + 1], reply[#reply + 2] = name, value end
  end
  return reply
end
