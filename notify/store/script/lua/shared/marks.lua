-- Pages of places.

-- Whether a comes after b in a sorted set, which compares bytes; < would compare by the locale.
local function comes_behind(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x > y end
  end
  return #a > #b
end

-- The rank in a place of the first one behind the last one seen, which may be gone: a binary search among those of its time. With
-- latest ranks are those from the latest on.
function Marks.rank_behind(place, time, last, latest)
  local from, to = call('ZCOUNT', place, '-inf', '(' .. time), call('ZCOUNT', place, '-inf', time)
  if latest then from, to = call('ZCOUNT', place, '(' .. time, '+inf'), call('ZCOUNT', place, time, '+inf') end
  while from < to do
    local middle = math.floor((from + to) / 2)
    local found
    if latest then found = comes_behind(last, call('ZRANGE', place, middle, middle, 'REV')[1])
    else found = comes_behind(call('ZRANGE', place, middle, middle)[1], last) end
    if found then to = middle else from = middle + 1 end
  end
  return from
end

-- The key of a place, of a topic unless it is that of all, by its name.
function Marks.place_named(name, topic)
  if name == 'scheduled:' then return scheduled_of(topic) end
  if name == 'ready:' then return ready_of(topic) end
  if name == 'line:' then return line_of(topic) end
  if name == 'dead:' then return dead_of(topic) end
  if name == 'done:' then return done_of(topic) end
  return name == 'leased' and LEASED or BROADCASTS
end

-- The member that an entry of a place stands for, and its time: in all but lines it is the member, and its score the time.
function Marks.member_in(key, topic, entry, score)
  if not topic or key ~= line_of(topic) then return entry, score end
  local _, due, id = Seats.entry_parts(entry)
  if not id then return entry, score end
  return topic .. ':' .. id, due
end
