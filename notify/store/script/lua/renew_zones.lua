-- Withdraws a page of what was made by an older version of the rules of time zones, so that it is made anew, for the elected carrier only. What an
-- older carrier finds of a newer version it leaves, and notes its own: the next newer one makes anew what that made.
-- ARGV: token; version; the cursor of the page, 0 at first.
-- Reply: 0 if another has the lease, and its token, or '' if it ran out. Else 1, and the cursor of the next page, 0 if that is all.
local token, version, cursor = unpack(ARGV)
local holder = call('GET', CARRIER)
if holder ~= token then return { 0, holder or '' } end
local known = try('HGET', TOPICS, '*:zones') or ''
if known == version then return { 1, '0' } end
local refusal, _, now = Memory.refuse_to_grow() -- it could not be made anew
if refusal then return refusal end
local page = known ~= '' and known < version and Scans.page(try, 'ZSCAN', SCHEDULES, cursor, 50) or { '0', {} }
for i = 1, #page[2], 2 do
  local topic, name = string.match(page[2][i], '^([^:]+):(.+)$')
  if topic then Schedules.renew(topic, name, now) end
end
if page[1] == '0' then call('HSET', TOPICS, '*:zones', version) end
return { 1, page[1] }
