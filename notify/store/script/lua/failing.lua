-- Finds messages of which attempt after attempt failed, among those that fall due next: such a message comes again soon.
-- ARGV: how many topics to look at, by when something of them falls due; how many messages of each; how many attempts must have failed.
-- Reply: now in ms; then of each topic that has some: its name, how many of those that were looked at, and of the one that failed last its id,
--   how many attempts, when the last one ended in ms, who had it, '' if unknown, and why it failed.
local topics, most, least = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local _, now = clock()
local reply = { now }

-- How many members of a topic, of which the values in ATTEMPTS are given, failed so often, and the one that failed last.
local function failed_of(topic, members, values)
  local n, last = 0, { ended = 0 }
  for i, value in ipairs(values) do
    local used, id = Leases.used_in(value), string.match(members[i], '^[^:]+:(.+)$')
    local ended, worker, why = string.match(value or '', '\n(%d+) %S+ (%S+) ([^\n]*)$')
    ended = tonumber(ended)
    if id and topic_of(members[i]) == topic and used and used >= least and ended and ended <= LAST then
      n = n + 1
      if ended > last.ended then last = { id = id, used = used, ended = ended, worker = worker == '-' and '' or worker, why = why } end
    end
  end
  return n, last
end

for _, topic in ipairs(call('EXISTS', ATTEMPTS) == 1 and try('ZRANGE', SCHEDULED, 0, topics - 1) or {}) do
  local members = is_topic(topic) and try('ZRANGE', scheduled_of(topic), 0, most - 1) or {}
  local n, last = failed_of(topic, members, members[1] and try('HMGET', ATTEMPTS, unpack(members)) or {})
  if n > 0 then
    for _, value in ipairs({ topic, n, last.id, last.used, last.ended, last.worker, last.why }) do reply[#reply + 1] = value end
  end
end
return reply
