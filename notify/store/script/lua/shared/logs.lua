-- Logs of broadcasts. A position is a time in us that no other broadcast has; positions only grow.

-- A position as the id of an entry, MS-US: the time in ms, and the us within.
function Logs.id_of(position)
  return string.format('%.0f-%.0f', math.floor(position / 1000), position % 1000)
end

-- The position of an id of an entry; nil if it is foreign.
function Logs.position_of(id)
  local ms, us = string.match(id, '^(%d+)-(%d%d?%d?)$')
  local position = ms and ms * 1000 + us
  return position and position <= LAST and position or nil
end

-- The position of the last broadcast of all; 0 if there is none.
function Logs.last_sent()
  local last = try('ZRANGE', LOGS, text(LAST), 0, 'BYSCORE', 'REV', 'LIMIT', 0, 1, 'WITHSCORES')
  return math.floor((last or {})[2] or 0)
end

-- That of the last broadcast of a topic; nil if there is none.
function Logs.last_sent_to(topic)
  local last = tonumber(try('ZSCORE', LOGS, topic) or nil)
  if last and last >= 0 and last <= LAST then return math.floor(last) end
end

-- The position of the last entry that a log ever had; 0 if it never had one.
function Logs.last_in(log)
  local fields = redis.pcall('XINFO', 'STREAM', log)
  for i = 1, #fields do
    if fields[i] == 'last-generated-id' then
      local ms, within = string.match(fields[i + 1], '^(%d+)-(%d+)$')
      return ms * 1000 + within
    end
  end
  return 0
end

-- A field of an entry; nil if it has none of that name.
function Logs.field_of(entry, name)
  for i = 1, #entry[2], 2 do
    if entry[2][i] == name then return entry[2][i + 1] end
  end
end

-- The entries of a log behind a position, up to an id, and not many more than `bytes` of them, but at least one; whether there
-- may be more; their bytes; and whether any has a mark. Entries with a foreign id are skipped.
function Logs.entries_of(log, after, upto, limit, bytes)
  local begin = '(' .. Logs.id_of(after)
  local entries, from, size, marked = {}, begin, 0, false
  while #entries < limit do
    local page = math.min(limit - #entries, from == begin and 2 or size < 65536 and 64 or 8) -- so that few large ones are read in vain
    local got = try('XRANGE', log, from, upto, 'COUNT', page) or {}
    for _, entry in ipairs(got) do
      from = '(' .. entry[1]
      if Logs.position_of(entry[1]) then
        local record = Logs.field_of(entry, 'record') or ''
        entries[#entries + 1] = entry
        size = size + #record
        marked = marked or Messages.is_marked(record)
      end
      if size >= bytes then return entries, true, size, marked end
    end
    if #got < page then return entries, false, size, marked end
  end
  return entries, true, size, marked
end

-- The position up to which entries of a topic's log, behind another position, were trimmed before they were read; nil if none
-- were. entries are the first that exist, up to an id.
function Logs.lost_of(topic, after, entries, upto)
  local first = entries[1] or (upto ~= '+' and (try('XRANGE', log_of(topic), '(' .. upto, '+', 'COUNT', 1) or {})[1])
  local last
  if first then
    local prev = Logs.field_of(first, 'prev')
    last = prev and Logs.position_of(prev)
  else
    last = Logs.last_sent_to(topic)
  end
  if last and upto ~= '+' then last = math.min(last, Logs.position_of(upto)) end
  if last and last > after then return last end
end
