-- Reads which workers have the leased broadcasts of a named listener.
-- ARGV: name; how many leases to look at, those that end last.
-- Reply: how many broadcasts are leased; then of each worker its name, how many of those looked at it has, and the first of these by
--   position.
local name, most = unpack(ARGV)
local _, now = clock()
local held, after = held_of(name), '(' .. text(now)
local page = call('ZRANGE', held, '+inf', after, 'BYSCORE', 'REV', 'LIMIT', 0, most, 'WITHSCORES')
local members = {}
for i = 1, #page, 2 do members[#members + 1] = page[i] end
local notes = #members > 0 and try('HMGET', owners_of(name), unpack(members)) or {}
local counts, firsts = {}, {}
for i, member in ipairs(members) do
  local ends, worker = string.match(notes[i] or '', '^(%d+) (%S+)$')
  local position, topic = string.match(member, '(%d+) (.+)$') -- of a gap the end
  position = tonumber(position or nil)
  if position and ends and tonumber(ends) == tonumber(page[2 * i]) then
    counts[worker] = (counts[worker] or 0) + 1
    if not firsts[worker] or position < firsts[worker][1] then firsts[worker] = { position, text(position) .. ' ' .. topic } end
  end
end
local reply = { call('ZCOUNT', held, after, '+inf') }
for worker, n in pairs(counts) do reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = worker, n, firsts[worker][2] end
return reply
