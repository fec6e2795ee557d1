-- Reads a page of the topics that have groups, or of the groups of one, in no order: what is there all the time is in a page, and may be in two.
-- ARGV: topic, '' for the topics; cursor, 0 at first; about how many.
-- Error: RESTARTED if another process of Redis gave the cursor.
-- Reply: the cursor of the next page, 0 at the end; then topics; or for each group its name, '' of what is foreign, since when it is there and is
--   complete in ms, how many of it were acknowledged, purged as dead, dropped and cancelled, and the member of its callback, '' if there is none.
local topic, cursor, most = unpack(ARGV)
local page, anew = Scans.page(try, topic == '' and 'ZSCAN' or 'HSCAN', topic == '' and GROUPED or groups_of(topic), cursor, most)
if anew then return redis.error_reply('RESTARTED another process gave the cursor') end
local reply = { page and page[1] or '0' }
for i = 1, page and #page[2] or 0, 2 do
  local field = page[2][i]
  local n = string.match(field, '^#(%d+)$')
  if topic == '' then
    reply[#reply + 1] = field
  elseif n then
    local g = Groups.read(topic, tonumber(n)) or { name = '' }
    reply[#reply + 1] = g.name
    for _, what in ipairs({ 'opened', 'complete', 'acked', 'dead', 'dropped', 'cancelled' }) do reply[#reply + 1] = g[what] or 0 end
    reply[#reply + 1] = g.callback or ''
  end
end
return reply
