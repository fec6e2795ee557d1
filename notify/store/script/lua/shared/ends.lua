-- Who is told when messages end: those who await one of them, and the archive, if there is one. EXTRAS exists in either case, so
-- callers look for that first. They note an end before the record goes, and take the note back if the message does not end.

-- Whether the archive takes messages that end in a state: those that were acknowledged, if the settings of their topic say so.
local function is_archived(state, topic)
  if state ~= 'acked' then return state == 'dead' or state == 'dropped' or state == 'removed' end
  local own, common = Settings.settings_of(topic)
  return Settings.get('archive_acked', own, common) == 1
end

-- Counts entries that the archive never gets.
local function note_unarchived(n)
  Counters.count_all('unarchived', n)
  try('HINCRBY', KEPT, 'unarchived', n)
end

-- Removes up to some of the oldest entries of ENDINGS if it has more than its room. Noted is what EXTRAS holds of *. Returns whether it
-- removed some, and may not have removed all.
function Ends.trim_endings(noted, most)
  local NODE = 100 -- entries, at the most, that Redis keeps together: to trim whole nodes is faster
  local room = noted and Extras.extra(noted, 'room')
  local over = room and (try('XLEN', ENDINGS) or 0) - room or 0
  if over <= 0 then return false end
  local removed = over > NODE and call('XTRIM', ENDINGS, 'MAXLEN', '~', room, 'LIMIT', most) or call('XTRIM', ENDINGS, 'MAXLEN', room)
  note_unarchived(removed)
  return over > removed
end

-- Adds an entry, of an end at a time in ms, to ENDINGS. Bare: the record of that name, and what is kept beside it, are of another message.
local function add_entry(member, state, ended, reason, with)
  local used, record = not with.bare and try('HGET', ATTEMPTS, member) or '', not with.bare and call('HGET', MESSAGES, member)
  if with.used then used = text(with.used) .. (string.match(used, '\n.*$') or '') end
  local more = {}
  if record then more[1], more[2] = 'record', record end
  if with.result then more[#more + 1], more[#more + 2] = 'result', with.result end
  local id = try('XADD', ENDINGS, '*', 'member', member, 'state', state, 'ended', text(ended), 'reason', reason, 'attempts', used, unpack(more))
  if not id then return note_unarchived(1) end
  table_in(current, 'noted')[member] = id
end

-- Notes that messages of a topic end in a state: dead, dropped, acked or removed, which the archive may take, or another. Reasons is one
-- for all, or a list. Noted is what EXTRAS holds of * and of them, if the caller has read that. With may have used, the attempts that are
-- used up where ATTEMPTS does not have them yet; bare, as add_entry says; the result of an acknowledgement; and times, a list of when they
-- ended, if that is not now.
function Ends.note_ends(members, state, reasons, now, noted, with)
  noted, with = noted or try('HMGET', EXTRAS, '*', unpack(members)) or {}, with or {}
  for i, member in ipairs(members) do
    if noted[i + 1] and Extras.extra(noted[i + 1], 'await') then tell(ENDED, member) end
  end
  if not Extras.extra(noted[1], 'archive') or not is_archived(state, topic_of(members[1]) or '*') then return end
  local was_empty = try('XLEN', ENDINGS) == 0
  for i, member in ipairs(members) do
    add_entry(member, state, with.times and with.times[i] or now, type(reasons) == 'table' and reasons[i] or reasons or '', with)
  end
  if was_empty then tell(ENDINGS, '') end
  Ends.trim_endings(noted[1], 200)
end

-- Takes the notes of messages back that do not end.
function Ends.forget_ends(members)
  local noted = current.noted or {}
  for _, member in ipairs(members) do
    if noted[member] then try('XDEL', ENDINGS, noted[member]) end
    noted[member] = nil
  end
end

-- A time in ms in the words of RFC 3339, in UTC: H. Hinnant, chrono-Compatible Low-Level Date Algorithms, civil_from_days.
function Ends.rfc3339(ms)
  local function whole(n) return math.floor(n) end
  local z, rest = whole(ms / 86400000) + 719468, ms % 86400000
  local era = whole(z / 146097)
  local of_era = z - era * 146097
  local year = whole((of_era - whole(of_era / 1460) + whole(of_era / 36524) - whole(of_era / 146096)) / 365)
  local of_year = of_era - (365 * year + whole(year / 4) - whole(year / 100))
  local month = whole((5 * of_year + 2) / 153) -- from March on
  local day = of_year - whole((153 * month + 2) / 5) + 1
  month = month < 10 and month + 3 or month - 9
  year = year + era * 400 + (month <= 2 and 1 or 0)
  return string.format('%04d-%02d-%02dT%02d:%02d:%02d.%03dZ', year, month, day, whole(rest / 3600000), whole(rest / 60000) % 60,
    whole(rest / 1000) % 60, rest % 1000)
end

-- Whether a pattern of topics matches one: * is any one token, and > at the end one or more.
local function matches(pattern, topic)
  local lua = string.gsub(string.gsub(pattern, '[^%w*>]', '%%%0'), '[*>]', { ['*'] = '[^.]+', ['>'] = '.+' })
  return string.find(topic, '^' .. lua .. '$') ~= nil
end

-- Whether a named listener is registered for the deaths of a topic, by the name of these.
local function is_hooked(deaths)
  if try('HGET', HOOKS, deaths) then return true end
  local hooks = try('HGETALL', HOOKS) or {}
  for i = 1, #hooks, 2 do
    if matches(hooks[i], deaths) then return true end
  end
  return false
end

-- Tells the named listeners to deaths of a topic of one: a broadcast waits for the carrier, as any other. Its id sorts by the time of the
-- death, and by how many there were.
function Ends.announce_death(topic, id, reason, attempts, now)
  local deaths, nth = '$dead.' .. topic, tonumber(try('HGET', TOPICS, '*:died') or nil) or 0
  if not is_hooked(deaths) then return end
  local body = string.format('{"topic":"%s","id":%s,"reason":%s,"attempts":%d,"died_at":"%s"}', topic, cjson.encode(id), cjson.encode(reason),
    attempts, Ends.rfc3339(now))
  local record, member = text(now) .. ',{"type":"application/json","mode":"broadcast"}\n' .. body, ''
  while member == '' or call('HSETNX', MESSAGES, member, record) == 0 do -- the counter may be lost, and does not count strays
    member, nth = string.format('%s:%.0f-%012.0f', deaths, now, nth), nth + 1
  end
  if Places.put_broadcasts({ now, member }, now) then Counters.count(deaths, 'broadcasts', 1) else call('HDEL', MESSAGES, member) end
end
