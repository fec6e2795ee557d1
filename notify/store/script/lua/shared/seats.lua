-- Keys. Of the messages of a topic that have one key only some have a seat, one unless the topic's settings say more: each of these is ready
-- or leased, or was put off, by its handler or for another attempt. The others that are due are blocked: they stand in the topic's line, by
-- key, due time and id. The first of them gets the next seat. Where the settings say so, a message that is put off leaves its seat, and one
-- that died keeps it, and bars the key: nobody gets a seat.
--
-- keys_of has ID → KEY of each message that has one, as long as it has a record, and behind a space its due time while it is blocked, or ? if
-- it is to be dropped where it would be blocked: that is decided once, when it is due first.
-- seats_of has KEY → the ids that have seats of it, with a ! before one that died: names, not a number, so that a seat of nobody is found. heads_of has
-- the keys that have a line.
-- A topic whose messages have no keys has none of these.

local AT_ONCE, ROUNDS = 500, 4 -- messages of a topic that are called up, or looked for, together; how often they are called up in a call

-- Whether messages of a topic have keys.
function Seats.are_in(topic)
  return call('EXISTS', keys_of(topic)) == 1
end

-- The settings of a topic, which are read once in a call.
local function settings_of(topic)
  local all = table_in(current, 'settings')
  if not all[topic] then
    local own, common = Settings.settings_of(topic)
    all[topic] = { own = own, common = common }
  end
  return all[topic]
end

local function setting(topic, name)
  local all = settings_of(topic)
  return Settings.get(name, all.own, all.common)
end

-- Whether a topic has branches: its messages need no seats then, but their copies do.
function Seats.are_copied(topic)
  return Settings.branches_in(settings_of(topic).own)
end

-- Whether a key is that of a schedule whose occurrences do not overlap: whatever the settings say, it has one seat, which one that is put off keeps,
-- and one that dies leaves.
local function is_of_schedule(key)
  return string.byte(key) == 126
end

-- How many seats a key has.
local function seats_for(topic, key)
  return is_of_schedule(key) and 1 or setting(topic, 'key_concurrency')
end

local function id_of(topic, member)
  return string.sub(member, #topic + 2)
end

local function ids_of(topic, members)
  local ids = {}
  for i, member in ipairs(members) do ids[i] = id_of(topic, member) end
  return ids
end

-- The key in a value of keys_of, the due time, '' unless the message is blocked, and whether it is to be dropped where it would be.
local function parts_of(value)
  local key, due = string.match(value, '^(%S+) ?([%d?]*)$')
  return key or value, due ~= '?' and due or '', due == '?'
end

-- A due time as it stands in a line: with as many digits as MAX has.
local function digits(due)
  return string.format('%015.0f', math.max(math.min(tonumber(due), MAX), 0))
end

local function entry_of(key, due, id)
  return key .. '\0' .. due .. '\0' .. id
end

-- Key, due time and id of an entry in a line; nil if it is foreign.
function Seats.entry_parts(entry)
  return string.match(entry, '^([^%z]+)%z(%d+)%z(.+)$')
end

-- The first n entries of a key in the line of a topic.
local function first_of(topic, key, n)
  return try('ZRANGE', line_of(topic), '[' .. key .. '\0', '(' .. key .. '\1', 'BYLEX', 'LIMIT', 0, n) or {}
end

-- Notes by what a key's line begins with that it has one, or with nil that it has none.
local function index_line(topic, key, first)
  local due = first and string.match(first, '%z(%d+)%z')
  if due then try('ZADD', heads_of(topic), due, key) else try('ZREM', heads_of(topic), key) end
end

-- Indexes a topic by the first of its messages that is blocked, or takes it out of the index if none has a key.
function Seats.index(topic)
  if call('EXISTS', keys_of(topic), line_of(topic)) == 0 then return try('ZREM', KEYED, topic) end
  try('ZADD', KEYED, head_of(heads_of(topic)) or '+inf', topic)
end

-- Notes the keys of messages, a list of pairs of id and key. Call it before their records are written.
function Seats.note(topic, list)
  current.keyed = true -- for a carry that looked before
  try('ZADD', KEYED, 'NX', '+inf', topic)
  call('HSET', keys_of(topic), unpack(list))
end

-- The key of a message, and its due time, as text, if it is blocked. Nothing if it has no key.
function Seats.key_of(topic, member)
  local value = try('HGET', keys_of(topic), id_of(topic, member))
  if not value then return nil end
  local key, due = parts_of(value)
  return key, due ~= '' and text(tonumber(due)) or nil
end

-- The due time of a message that is blocked, as text; nil if it is not.
function Seats.blocked_since(topic, member)
  local _, due = Seats.key_of(topic, member)
  return due
end

-- Takes a message that is blocked out of the line; its key stays. Returns whether it was there.
function Seats.take_blocked(topic, member)
  local key, due = Seats.key_of(topic, member)
  if not due then return false end
  local id = id_of(topic, member)
  call('HSET', keys_of(topic), id, key)
  try('ZREM', line_of(topic), entry_of(key, digits(due), id))
  index_line(topic, key, first_of(topic, key, 1)[1])
  return true
end

-- Notes whether a message that this call publishes is to be dropped where it would be blocked.
function Seats.may_drop(member, drops)
  table_in(current, 'may_drop')[member] = drops or nil
end

-- Notes the same of one that may_drop named, for when it is due. Call it when that is scheduled.
function Seats.keep_may_drop(topic, member)
  local key = current.may_drop[member] and Seats.key_of(topic, member)
  if key then call('HSET', keys_of(topic), id_of(topic, member), key .. ' ?') end
end

-- Forgets that a message is to be dropped where it would be blocked. Returns whether it was.
function Seats.decide(topic, member)
  local value = try('HGET', keys_of(topic), id_of(topic, member)) or ''
  local key, _, drops = parts_of(value)
  if drops then call('HSET', keys_of(topic), id_of(topic, member), key) end
  return drops
end

-- What is to be put into a line.
local function queue()
  return { line = {}, noted = {}, heads = {}, before = {}, drops = {}, earliest = math.huge }
end

-- Adds a message, which is due at a time, to a queue. Was is its due time if it is in the line already, or ''.
local function block(q, key, one)
  local id, due, was = one.id, digits(one.time), one.was
  q.drops[one.member] = one.may_drop or false
  if was ~= '' and was ~= due then q.before[#q.before + 1] = entry_of(key, was, id) end
  q.line[#q.line + 1], q.line[#q.line + 2] = 0, entry_of(key, due, id)
  q.noted[#q.noted + 1], q.noted[#q.noted + 2] = id, key .. ' ' .. due
  if not q.heads[key] or tonumber(due) < tonumber(q.heads[key]) then q.heads[key] = due end
  q.earliest = math.min(q.earliest, tonumber(due))
end

-- Puts a queue into the line: what leads there first, and takes out last what stood there before. Returns whether it could: the line may be
-- foreign.
local function put_blocked(topic, q)
  if not q.line[1] then return true end
  local heads = {}
  for key, due in pairs(q.heads) do heads[#heads + 1], heads[#heads + 2] = due, key end
  try('ZADD', KEYED, 'LT', text(q.earliest), topic)
  if not try('ZADD', heads_of(topic), 'LT', unpack(heads)) or not try('ZADD', line_of(topic), unpack(q.line)) then return false end
  call('HSET', keys_of(topic), unpack(q.noted))
  for member, drops in pairs(q.drops) do table_in(current, 'blocked')[member] = drops and 'drop' or true end
  if q.before[1] then call('ZREM', line_of(topic), unpack(q.before)) end
  return true
end

-- Takes those off current.blocked that are to be dropped. Returns them by topic.
function Seats.take_drops()
  local all = {}
  for member, how in pairs(current.blocked) do
    if how == 'drop' then
      table.insert(table_in(all, topic_of(member)), member)
      current.blocked[member] = nil
    end
  end
  return all
end

-- The ids that leave seats of a key in this call, see current.leaving; nil if no seat of it may be free.
local function leaving_of(topic, key)
  return ((current.leaving or {})[topic] or {})[key]
end

-- Notes that a seat of a key may be free, so that settle calls up the next. Returns the ids of leaving_of.
local function note_free(topic, key)
  return table_in(table_in(table_in(current, 'leaving'), topic), key)
end

-- The ids in a value of seats_of, as a list and by name, but those that leave; in the list with a ! before one that died.
local function holders_in(value, leaving)
  local ids, has = {}, {}
  for word in string.gmatch(value or '', '%S+') do
    local id = string.match(word, '^!?(.*)$')
    if not (leaving and leaving[id]) then ids[#ids + 1], has[id] = word, true end
  end
  return ids, has
end

-- How many seats of a topic's key are free beside their holders: none while one that died is among them, or among those that leave.
local function free_beside(topic, key, ids, leaving)
  if Seats.are_copied(topic) then return AT_ONCE end
  for _, word in ipairs(ids) do
    if string.byte(word) == 33 then return 0 end
  end
  for _, how in pairs(leaving or {}) do
    if how == '!' then return 0 end
  end
  return math.max(seats_for(topic, key) - #ids, 0)
end

-- Divides a list, pairs of time and member, into what has no key, and messages by their keys.
local function by_key(topic, list)
  local members, plain, names, groups = {}, {}, {}, {}
  for i = 2, #list, 2 do members[#members + 1] = list[i] end
  local ids = ids_of(topic, members)
  local values = try('HMGET', keys_of(topic), unpack(ids)) or {} -- of a foreign key none is read
  for i, member in ipairs(members) do
    local time = list[2 * i - 1]
    if values[i] then
      local key, was, drops = parts_of(values[i])
      if not groups[key] then names[#names + 1], groups[key] = key, {} end
      table.insert(groups[key], {
        id = ids[i], time = time, member = member, was = was, noted = drops, may_drop = drops or current.may_drop and current.may_drop[member],
      })
    else
      plain[#plain + 1], plain[#plain + 2] = time, member
    end
  end
  return plain, names, groups
end

-- Puts a list of a topic, pairs of time and member that are due, into its ready set, but into the line what gets no seat. A message gets
-- one if a seat is free and its key has no line. Where several of a key would, all go into the line, which sorts them, and settle calls up
-- the first. Earliest is the least of the times. Returns how many are ready; nil, and changes nothing, if the ready set is foreign.
function Seats.put_ready(topic, list, earliest)
  local n = #list / 2
  if not Seats.are_in(topic) or Seats.are_copied(topic) and call('EXISTS', line_of(topic)) == 0 then
    return Places.put_ready(topic, list, earliest) and n
  end
  if not try('ZCARD', ready_of(topic)) then return nil end
  local ready, names, groups = by_key(topic, list)
  local seats, lines = {}, {}
  if names[1] then seats, lines = try('HMGET', seats_of(topic), unpack(names)) or {}, try('ZMSCORE', heads_of(topic), unpack(names)) or {} end
  local q, seated, free, decided = queue(), {}, {}, {}
  for k, key in ipairs(names) do
    local leaving = leaving_of(topic, key)
    local all, had = holders_in(seats[k]) -- one that leaves has its seat until settle
    local _, has = holders_in(seats[k], leaving)
    local waiting = {}
    for _, one in ipairs(groups[key]) do
      if has[one.id] then ready[#ready + 1], ready[#ready + 2] = one.time, one.member else waiting[#waiting + 1] = one end
    end
    local one, may_sit = waiting[1], waiting[1] and free_beside(topic, key, all, leaving) > 0
    if #waiting == 1 and one.was == '' and not lines[k] and may_sit then
      if leaving then leaving[one.id] = nil end -- it may as well stay
      if not had[one.id] then
        all[#all + 1] = one.id
        seated[#seated + 1], seated[#seated + 2] = key, table.concat(all, ' ')
      end
      if one.noted then decided[#decided + 1], decided[#decided + 2] = one.id, key end
      ready[#ready + 1], ready[#ready + 2] = one.time, one.member
    else
      for _, each in ipairs(waiting) do block(q, key, each) end
      if may_sit then free[#free + 1] = key end
    end
  end
  if seated[1] then try('HSET', seats_of(topic), unpack(seated)) end
  if decided[1] then call('HSET', keys_of(topic), unpack(decided)) end
  if not put_blocked(topic, q) then return Places.put_ready(topic, list, earliest) and n end
  for _, key in ipairs(free) do note_free(topic, key) end
  if ready[1] and not Places.put_ready(topic, ready, earliest) then return nil end
  return #ready / 2
end

-- Notes that messages of a topic that has keys leave their seats. Returns the ids of those that have one.
local function leave(topic, members)
  local ids, keyed = ids_of(topic, members), {}
  for i, value in ipairs(try('HMGET', keys_of(topic), unpack(ids)) or {}) do
    if value then
      local key, due = parts_of(value)
      keyed[#keyed + 1] = ids[i]
      if due ~= '' then Seats.take_blocked(topic, members[i]) else note_free(topic, key)[ids[i]] = true end
    end
  end
  return keyed
end

-- Notes that messages of a topic leave their seats: settle takes these away when all else is done, so that what fails before keeps them.
-- What is blocked leaves the line at once.
function Seats.leave(topic, members)
  if Seats.are_in(topic) then leave(topic, members) end
end

-- Takes note that a message of a topic was put off: it leaves its seat if the settings say so.
function Seats.put_off(topic, member)
  if not Seats.are_in(topic) or setting(topic, 'on_retry') ~= 1 then return end
  local key = Seats.key_of(topic, member)
  if key and not is_of_schedule(key) then Seats.leave(topic, { member }) end
end

-- Takes note that a message of a topic that has keys died: it leaves its seat, or bars its key if the settings say so, whether it had a seat or
-- not.
function Seats.die(topic, member)
  Seats.decide(topic, member) -- once requeued it waits
  local key = setting(topic, 'on_dead') == 1 and Seats.key_of(topic, member)
  if not key or is_of_schedule(key) then return Seats.leave(topic, { member }) end
  Seats.take_blocked(topic, member)
  note_free(topic, key)[id_of(topic, member)] = '!'
end

-- Whether a dead letter of a topic bars its key, maybe since this call.
function Seats.bars(topic, member)
  local key, id = Seats.key_of(topic, member), id_of(topic, member)
  local how = key and leaving_of(topic, key)
  if how and how[id] then return how[id] == '!' end
  local words = key and try('HGET', seats_of(topic), key) or ''
  return string.find(' ' .. words .. ' ', ' !' .. id .. ' ', 1, true) ~= nil
end

-- Those of some dead letters of a topic that bar no key.
function Seats.without_bars(topic, members)
  local values, words_of, free = members[1] and try('HMGET', keys_of(topic), unpack(ids_of(topic, members))) or {}, {}, {}
  for i, member in ipairs(members) do
    local key = values[i] and parts_of(values[i])
    if key and not words_of[key] then
      words_of[key] = {}
      for _, word in ipairs(Seats.holders(topic, key)) do words_of[key][word] = true end
    end
    if not (key and words_of[key]['!' .. id_of(topic, member)]) then free[#free + 1] = member end
  end
  return free
end

-- Takes note that dead letters of a topic that has keys are to be ready again. One that bars its key does no longer, and has its seat, unless
-- others have all.
function Seats.revive(topic, members)
  for _, member in ipairs(members) do
    if Seats.bars(topic, member) then
      local key, id = Seats.key_of(topic, member), id_of(topic, member)
      local ids, n = holders_in(try('HGET', seats_of(topic), key), { [id] = true }), 0
      for _, word in ipairs(ids) do
        if string.byte(word) ~= 33 then n = n + 1 end
      end
      table.insert(ids, 1, id)
      if n < seats_for(topic, key) then
        try('HSET', seats_of(topic), key, table.concat(ids, ' '))
        note_free(topic, key)
      else
        note_free(topic, key)[id] = true
      end
    end
  end
end

-- Undoes leave for a message that has a seat.
function Seats.stay(topic, member)
  local key = current.leaving and Seats.key_of(topic, member)
  if key then note_free(topic, key)[id_of(topic, member)] = nil end
end

-- Lets messages of a topic leave their seats and groups, and forgets their keys. Call it before their records are removed. How is how they end,
-- see Groups.touch.
function Seats.forget(topic, members, how)
  local beside = Groups.beside(topic)
  if beside >= 2 then Groups.touch(topic, members, how) end
  if beside % 2 == 0 then return end
  local keyed = leave(topic, members)
  if not keyed[1] then return end
  call('HDEL', keys_of(topic), unpack(keyed))
  if not Seats.are_in(topic) then try('ZREM', KEYED, topic) end
end

-- Adds to what is to be written that a message is ready since a time.
local function add_ready(w, at, member)
  w.ready[#w.ready + 1], w.ready[#w.ready + 2] = text(at), member
  w.earliest = math.min(w.earliest, at)
end

-- Has those of some holders that are ready be copied before a message that is due at a time: they were called up before it.
local function go_before(topic, ids, due, w)
  local members = {}
  for i, id in ipairs(ids) do members[i] = topic .. ':' .. id end
  for i, since in ipairs(members[1] and try('ZMSCORE', ready_of(topic), unpack(members)) or {}) do
    if since and tonumber(since) > due then add_ready(w, due - 1, members[i]) end
  end
end

-- Adds those of a key that are called up to what is to be written, and their ids to the holders. An entry that is not that of its
-- message is only removed, and settle looks again. They are ready from now on, but where they are to be copied since their due times, in the
-- order of which they go into the branches.
local function call_up(topic, key, free, now, w, holders)
  local entries, copied = first_of(topic, key, free + 1), Seats.are_copied(topic)
  local _, first = Seats.entry_parts(entries[1] or '')
  if copied and first then go_before(topic, holders, tonumber(first), w) end
  w.heads[#w.heads + 1] = { key, table.remove(entries, free + 1) }
  for _, entry in ipairs(entries) do
    local _, due, id = Seats.entry_parts(entry)
    w.gone[#w.gone + 1] = entry
    if id and call('HGET', keys_of(topic), id) == key .. ' ' .. due then
      w.noted[#w.noted + 1], w.noted[#w.noted + 2] = id, key
      add_ready(w, math.max(copied and 0 or now, tonumber(due)), topic .. ':' .. id) -- the clock may be set back
      holders[#holders + 1] = id
      if current.blocked then current.blocked[topic .. ':' .. id] = nil end
    else
      note_free(topic, key)
    end
  end
end

local function settle_topic(topic, leaving, us, now)
  local names, w = {}, { seats = {}, empty = {}, noted = {}, ready = {}, gone = {}, heads = {}, earliest = MAX }
  for key in pairs(leaving) do names[#names + 1] = key end
  local seats, lines = try('HMGET', seats_of(topic), unpack(names)) or {}, try('ZMSCORE', heads_of(topic), unpack(names)) or {}
  for k, key in ipairs(names) do
    local ids = holders_in(seats[k], leaving[key])
    for id, how in pairs(leaving[key]) do
      if how == '!' then table.insert(ids, 1, '!' .. id) end
    end
    local free = lines[k] and free_beside(topic, key, ids) or 0
    if free > AT_ONCE - #w.gone then
      free = AT_ONCE - #w.gone
      note_free(topic, key)
    end
    if free > 0 then call_up(topic, key, free, now, w, ids) end
    local value = table.concat(ids, ' ')
    if value == '' then
      if seats[k] then w.empty[#w.empty + 1] = key end
    elseif value ~= seats[k] then
      w.seats[#w.seats + 1], w.seats[#w.seats + 2] = key, value
    end
  end
  if w.seats[1] then try('HSET', seats_of(topic), unpack(w.seats)) end
  if w.empty[1] then try('HDEL', seats_of(topic), unpack(w.empty)) end
  if w.ready[1] and not Places.put_ready(topic, w.ready, text(w.earliest)) then return end -- foreign: the housekeeping finds the seats of nobody
  if w.noted[1] then call('HSET', keys_of(topic), unpack(w.noted)) end
  if w.gone[1] then call('ZREM', line_of(topic), unpack(w.gone)) end
  for _, head in ipairs(w.heads) do index_line(topic, head[1], head[2]) end
  if w.ready[1] then Rings.ring(topic, #w.ready / 2, us) end
end

-- Takes away the seats that messages left in this call, and calls up those that are next. It comes last in a
-- call. Once is enough, but where a line has entries of nothing, or many more seats are free than messages left, since there are more seats
-- now. Returns whether it called up as many as it may; the housekeeping goes on.
function Seats.settle()
  local us, now = clock()
  for _ = 1, ROUNDS do
    local all = current.leaving
    current.leaving = nil
    for topic, leaving in pairs(all or {}) do settle_topic(topic, leaving, us, now) end
    if not current.leaving then return false end
  end
  current.leaving = nil
  return true
end

-- How many messages of a key are blocked.
function Seats.count_blocked(topic, key)
  return try('ZLEXCOUNT', line_of(topic), '[' .. key .. '\0', '(' .. key .. '\1') or 0
end

-- The ids that have seats of a key, with a ! before one that died.
function Seats.holders(topic, key)
  return (holders_in(try('HGET', seats_of(topic), key)))
end

-- Whether an id has a seat of a key.
function Seats.has_seat(topic, key, id)
  local _, has = holders_in(try('HGET', seats_of(topic), key))
  return has[id] == true
end

-- Whether a message stands in the line where it is noted to stand.
function Seats.is_in_line(topic, key, due, id)
  return try('ZSCORE', line_of(topic), entry_of(key, digits(due), id)) ~= false
end

-- Gives an id a seat, for a repair: more may have one then than there are seats.
function Seats.seat(topic, key, id)
  local ids = Seats.holders(topic, key)
  ids[#ids + 1] = id
  try('HSET', seats_of(topic), key, table.concat(ids, ' '))
end

-- Takes the seat of an id away, and calls up the next.
function Seats.unseat(topic, key, id)
  note_free(topic, key)[id] = true
end

-- Indexes the line of a key.
function Seats.index_key(topic, key)
  index_line(topic, key, first_of(topic, key, 1)[1])
end

-- Corrects the index of the keys that have a line, of the first ones, and calls up the next of each where a seat is free; and indexes the topic.
function Seats.mend_heads(topic)
  local FIRST = 500
  for _, key in ipairs(try('ZRANGE', heads_of(topic), 0, FIRST - 1) or {}) do
    Seats.index_key(topic, key)
    note_free(topic, key)
  end
  Seats.index(topic)
end

-- Gives a message its key and its place in the line again, which key_of said. It writes as little as it can, since a right may be missing.
function Seats.restore(topic, member, key, due)
  local id, noted = id_of(topic, member), due and key .. ' ' .. digits(due) or key
  if due then
    try('ZADD', heads_of(topic), 'LT', due, key)
    call('ZADD', line_of(topic), 0, entry_of(key, digits(due), id))
  end
  call('HSET', keys_of(topic), id, noted)
  Seats.stay(topic, member)
end

-- What a command replies of each of some names, asked for a part of them at a time.
local function ask(command, key, names)
  local all = {}
  for from = 1, #names, AT_ONCE do
    local part = try(command, key, unpack(names, from, math.min(from + AT_ONCE - 1, #names))) or {}
    for i, value in ipairs(part) do all[from + i - 1] = value end
  end
  return all
end

-- Takes away the seats of members, each of the key at its place in of, that are in none of some places.
local function unseat_lost(topic, of, members, places)
  local found = {}
  for _, place in ipairs(places) do
    for i, score in pairs(ask('ZMSCORE', place, members)) do found[i] = found[i] or score end
  end
  for i, member in ipairs(members) do
    if not found[i] then Seats.unseat(topic, of[i], id_of(topic, member)) end
  end
end

-- The holders of seats of some keys of a topic, from a cursor on, some n or all of one key, and apart from them those that died: their keys, and
-- members. Returns the next cursor, too.
local function read_seats(topic, cursor, n)
  local holders, dead, seen = { of = {}, members = {} }, { of = {}, members = {} }, 0
  repeat
    local page = try('HSCAN', seats_of(topic), cursor, 'COUNT', math.ceil(n / setting(topic, 'key_concurrency'))) or { '0', {} }
    cursor = page[1]
    for i = 1, #page[2], 2 do
      for _, word in ipairs((holders_in(page[2][i + 1]))) do
        local died, id = string.match(word, '^(!?)(.*)$')
        local all = died == '' and holders or dead
        all.of[#all.of + 1], all.members[#all.members + 1] = page[2][i], topic .. ':' .. id
        seen = seen + 1
      end
    end
  until cursor == '0' or seen >= n
  return holders, dead, cursor
end

-- Apart those of some holders, by key and member, whose keys are those of schedules, and the others.
local function parted(holders)
  local ofs, others = { of = {}, members = {} }, { of = {}, members = {} }
  for i, key in ipairs(holders.of) do
    local all = is_of_schedule(key) and ofs or others
    all.of[#all.of + 1], all.members[#all.members + 1] = key, holders.members[i]
  end
  return ofs, others
end

-- Takes away, of some holders and some that died, the seats of those that are in no place where the settings let them have one.
local function unseat_some(topic, holders, dead)
  local ofs, others = parted(holders)
  unseat_lost(topic, ofs.of, ofs.members, { LEASED, ready_of(topic), scheduled_of(topic) })
  unseat_lost(topic, others.of, others.members, { LEASED, ready_of(topic), setting(topic, 'on_retry') ~= 1 and scheduled_of(topic) or nil })
  unseat_lost(topic, dead.of, dead.members, { setting(topic, 'on_dead') == 1 and dead_of(topic) or nil })
end

-- Looks at a page of the seats of a topic, and at one of n keys that have a line: seats that are of nobody, or of whom the settings let have none, are
-- taken away, and where one is free the next is called up. A cursor is - once all were seen. Returns the cursors for the next pages.
function Seats.mend(topic, seats, heads, n)
  if seats ~= '-' then
    local holders, dead, cursor = read_seats(topic, seats, n)
    unseat_some(topic, holders, dead)
    seats = cursor == '0' and '-' or cursor
  end
  local lines, names = heads ~= '-' and try('ZSCAN', heads_of(topic), heads, 'COUNT', n) or { '0', {} }, {}
  for i = 1, #lines[2], 2 do names[#names + 1] = lines[2][i] end
  for i, taken in pairs(ask('HMGET', seats_of(topic), names)) do
    if free_beside(topic, names[i], (holders_in(taken))) > 0 then note_free(topic, names[i]) end
  end
  return seats, lines[1] == '0' and '-' or lines[1]
end

-- Takes away the seats that changed settings of topics let nobody have any more, and calls up what they let go: of some messages, the housekeeping
-- of the others.
function Seats.mend_some(topics)
  local SOME = 500
  for _, topic in ipairs(topics) do
    if Seats.are_in(topic) then Seats.mend(topic, '0', '0', math.ceil(SOME / #topics)) end
  end
end

-- Does so where settings of all topics changed, for the topics that have waited longest.
function Seats.mend_first()
  local SOME = 10
  Seats.mend_some(try('ZRANGE', KEYED, 0, SOME - 1) or {})
end
