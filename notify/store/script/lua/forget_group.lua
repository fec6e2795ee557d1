-- Forgets a group, in several calls: its members stay as messages that are in none.
-- ARGV: topic, name, the most members.
-- Reply: how many members left it by this call: 0 if it is forgotten now, -1 if there is none of that name; or -2, the callback, which is to be
--   cancelled first, and when that was published, in ms.
local topic, name, most = ARGV[1], ARGV[2], tonumber(ARGV[3])
local n, since = Groups.find(topic, name)
if n == 0 then return { -1 } end
local g = Groups.read(topic, n) or { n = n, name = name }
local callback, published = Callbacks.waiting(topic, g)
if callback and not since then return { -2, callback, text(published or 0) } end

-- A record that names the group, without that name.
local function without(record)
  local first, last = string.find(record, '"group":"' .. name .. '"', 1, true)
  local before, behind = string.sub(record, first - 1, first - 1), string.sub(record, last + 1, last + 1)
  if behind == ',' then
    last = last + 1
  elseif before == ',' then
    first = first - 1
  else
    first, last = first - 2, last + 1 -- the object has nothing else
  end
  return string.sub(record, 1, first - 1) .. string.sub(record, last + 1)
end

local members, entries = {}, try('ZRANGE', grouped_of(topic), text(n), text(n) .. '.5', 'BYSCORE', 'LIMIT', 0, most) or {}
if not entries[1] then
  Groups.forget(topic, g)
  return { 0 }
end
for i, entry in ipairs(entries) do members[i] = Groups.member_of(topic, entry) end
local records = Messages.records_of(members)
for i, record in ipairs(records) do
  if record and Messages.options_of(record).group == name then call('HSET', MESSAGES, members[i], without(record)) end
end
call('ZREM', grouped_of(topic), unpack(entries, 1, #records))
return { #records }
