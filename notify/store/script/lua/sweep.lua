-- A step of the housekeeping, for the elected carrier only: removes dead letters that are too old or too many, and logs in which all
-- is too old, forgets topics of which nothing is left, workers and standbys that are gone, and who claimed what is leased no more, and
-- frees ids that were taken long enough. It checks only what may need it, some in each call: the topics whose oldest dead letter is too old, in
-- OLDEST, whose log did not grow for long, in LOGS, and those not checked for long, in SEEN. Each death removes dead letters that are
-- too many; those that were too many before are removed here, a page of topics in each call. What an archive has not stored is trimmed to its room.
-- ARGV: token, rank in OLDEST from which it checks whether there are too many, how many dead letters of a topic are kept, and for how
--   many ms, for how many ms a topic is remembered, and a log keeps broadcasts, and the rank in the logs that are old; how many that
--   succeeded a topic keeps, and for how many ms, and the rank in DONE from which it checks whether there are too many.
-- Reply: 0 if another has the lease, and its token, or '' if it ran out. Else 1, both ranks for the next call, 1 if there is more to do
--   soon, 1 if there is more to check, 1 if all of OLDEST was checked, how many topics were forgotten, how many dead letters were
--   removed by deaths, how many entries of the outbox were removed since the last call, and a list of the topics whose dead letters
--   this call removed: topic and how many; the rank in DONE for the next call, and how many that succeeded were removed because a topic
--   had too many, since the last call.
local token, rank, most_dead, dead_age, topic_age, log_age, log_rank = unpack(ARGV, 1, 7)
local most_done, done_age, done_rank = unpack(ARGV, 8, 10)
local LETTERS = 200 -- dead letters removed in one call
local AGED = 50 -- topics checked for dead letters that are too old
local TOO_MANY = 200 -- topics checked for too many dead letters
local CHECKS = 280 -- topics checked for whether anything is left
local STRIKES = 100 -- inboxes without a subscriber that are struck off waiting lists
local CHUNK = 56 -- topics whose counters are read at a time
local POSITIONS = 50 -- positions forgotten in one call
local OLD_LOGS = 20 -- old logs removed in one call
local IDS = 500 -- ids freed in one call
local DONE_TOPICS = 50 -- topics checked for too many that succeeded
local KEPT_ONES = 50 -- of these removed in one call
local CLAIMED = 2000 -- entries of calls that claimed, checked at a time
local FEW_CLAIMS = 8 -- so few are looked at together
local MOST_WORKERS = 100 -- checked in one call
local MOST_LISTENERS = 200 -- named listeners: if there are more, their places in forgotten topics stay
local OFTEN = 8 -- checks of a topic in the time for which it is remembered
local EVER = { 'published', 'sent', 'acked', 'died', 'dropped', 'lateness', 'released', 'idle' } -- counters that keep no topic alive
local KEEP, AGE, REMEMBER = tonumber(most_dead), tonumber(dead_age), tonumber(topic_age)
local holder = call('GET', CARRIER)
if holder ~= token then return { 0, holder or '' } end

local us, now = clock()
local soon, forgotten, removed, left, strikes = 0, 0, {}, LETTERS, STRIKES
local full = 0 -- 1: there are more topics to check
local YOUNG = now - log_age -- ms: what is older in a log is too old
rank, log_rank, done_rank = tonumber(rank), tonumber(log_rank), tonumber(done_rank)

-- Removes the n oldest dead letters of a topic, as far as this call may.
local function remove(topic, n)
  if n > left then n, soon = left, 1 end
  if n > 0 then
    Dead.remove_dead(topic, call('ZRANGE', dead_of(topic), 0, n - 1), now)
    removed[#removed + 1] = topic
    removed[#removed + 1] = n
    left = left - n
  end
  Dead.note_oldest(topic)
end

local function remove_aged()
  local topics = try('ZRANGE', OLDEST, '-inf', '(' .. text(now - AGE), 'BYSCORE', 'LIMIT', 0, AGED) or {}
  for _, topic in ipairs(topics) do
    remove(topic, try('ZCOUNT', dead_of(topic), '-inf', '(' .. text(now - AGE)) or 0)
    if left == 0 then break end
  end
  if #topics == AGED then soon = 1 end
end

-- Checks a page of topics. If this call may remove no more, the next one checks the same page again.
local function remove_too_many()
  local topics = try('ZRANGE', OLDEST, rank, rank + TOO_MANY - 1) or {}
  for _, topic in ipairs(topics) do
    local all = try('ZCARD', dead_of(topic)) or 0
    if all > KEEP or all == 0 then remove(topic, math.max(all - KEEP, 0)) end
    if left == 0 then return end
  end
  rank = #topics == TOO_MANY and rank + TOO_MANY or 0
end

-- Writes for each death how many dead letters to keep, and returns how many deaths removed since the last call, and how many entries of
-- the outbox were removed.
local function removed_by_deaths()
  local kept = try('HMGET', KEPT, 'most', 'removed', 'unarchived')
  if not kept then return 0, 0 end
  if kept[1] ~= most_dead then call('HSET', KEPT, 'most', most_dead) end
  if not kept[2] and not kept[3] then return 0, 0 end
  call('HDEL', KEPT, 'removed', 'unarchived')
  return tonumber(kept[2] or 0) or 0, tonumber(kept[3] or 0) or 0
end

-- Writes for each acknowledgement how many that succeeded to keep, and for how long. Returns how many acknowledgements removed since the
-- last call.
local function removed_by_acks()
  local bound, kept = most_done .. ' ' .. done_age, try('HMGET', KEPT, 'done', 'forgotten')
  if not kept then return 0 end
  if kept[1] ~= bound then call('HSET', KEPT, 'done', bound) end
  if kept[2] then call('HDEL', KEPT, 'forgotten') end
  return tonumber(kept[2] or 0) or 0
end

-- Checks a page of the topics that keep what succeeded. Returns how many it removed.
local function remove_done()
  local topics, gone = try('ZRANGE', DONE, done_rank, done_rank + DONE_TOPICS - 1) or {}, 0
  for _, topic in ipairs(topics) do
    gone = gone + Endings.trim_done(topic, tonumber(most_done), KEPT_ONES - gone, now)
    local first = head_of(done_of(topic))
    if first then call('ZADD', DONE, text(first), topic) else call('ZREM', DONE, topic) end
    if gone >= KEPT_ONES then
      soon = 1
      return gone
    end
  end
  done_rank = #topics == DONE_TOPICS and done_rank + DONE_TOPICS or 0
  if done_rank > 0 then full = 1 end
  return gone
end

-- Whether a subscriber waits for a topic. Inboxes without a subscription are struck off, as far as this call may; a subscriber that
-- is only reconnecting claims then, and waits again.
local function is_waited_for(topic)
  local waiting = waiting_of(topic)
  while strikes > 0 do
    local inbox = (try('ZRANGE', waiting, 0, 0) or {})[1]
    if not inbox then break end
    if call('PUBSUB', SHARDED and 'SHARDNUMSUB' or 'NUMSUB', AT .. inbox)[2] > 0 then return true end
    call('ZREM', waiting, inbox)
    strikes = strikes - 1
  end
  return call('EXISTS', waiting) == 1
end

-- Whether nothing is left of a topic that was not used for long: no message, dead letter or broadcast in any place, no subscriber
-- that waits, no setting.
local function is_empty(topic)
  for _, n in ipairs(call('HMGET', TOPICS, topic .. ':leased', topic .. ':broadcasts', topic .. ':settings')) do
    if n then return false end
  end
  return call('EXISTS', scheduled_of(topic), ready_of(topic), dead_of(topic), log_of(topic), done_of(topic)) == 0 and not is_waited_for(topic)
end

-- The topics, of some, that have messages or dead letters, which may stay for long.
local function with_messages(topics)
  local scheduled, dead = try('ZMSCORE', SCHEDULED, unpack(topics)) or {}, try('ZMSCORE', OLDEST, unpack(topics)) or {}
  local ready, busy = {}, {}
  for i, topic in ipairs(topics) do
    busy[topic] = scheduled[i] or dead[i]
    ready[i] = ready_of(topic)
  end
  if call('EXISTS', unpack(ready)) == 0 then return busy end
  for i, topic in ipairs(topics) do busy[topic] = busy[topic] or call('EXISTS', ready[i]) == 1 end
  return busy
end

-- Marks topics beside their counters as idle since now, with how many messages were published until then. Drops the mark of those
-- that are busy. Published are these numbers, or ''.
local function mark(topics, published)
  local marks, dropped, since = {}, {}, text(now) .. ' '
  local busy = with_messages(topics)
  for i, topic in ipairs(topics) do
    if busy[topic] then
      dropped[#dropped + 1] = topic .. ':idle'
    else
      marks[#marks + 1] = topic .. ':idle'
      marks[#marks + 1] = since .. published[i]
    end
  end
  if #marks > 0 then call('HSET', TOPICS, unpack(marks)) end
  if #dropped > 0 then call('HDEL', TOPICS, unpack(dropped)) end
end

-- The topics, of some, that can be forgotten: nothing is left of them, and nothing was published or sent for as long as topics are
-- remembered. Updates the marks of the others.
local function forgettable(topics)
  local fields = {}
  for i, topic in ipairs(topics) do fields[2 * i - 1], fields[2 * i] = topic .. ':published', topic .. ':idle' end
  local values = try('HMGET', TOPICS, unpack(fields))
  if not values then return {} end
  local gone, changed, published = {}, {}, {}
  for i, topic in ipairs(topics) do
    local sofar, since, before = values[2 * i - 1] or '', string.match(values[2 * i] or '', '^(%d+) (.*)$')
    local over = before == sofar and now - since > REMEMBER and now - (Logs.last_sent_to(topic) or 0) / 1000 > REMEMBER
    if over and is_empty(topic) then
      gone[#gone + 1] = topic
    elseif over and strikes > 0 or before ~= sofar then -- else the next check goes on with its waiting list
      changed[#changed + 1] = topic
      published[#changed] = sofar
    end
  end
  if #changed > 0 then mark(changed, published) end
  return gone
end

-- Forgets some topics.
local function forget_all(topics)
  local counters = {}
  for _, topic in ipairs(topics) do
    for _, name in ipairs(EVER) do counters[#counters + 1] = topic .. ':' .. name end
  end
  call('HDEL', TOPICS, unpack(counters))
  for _, index in ipairs({ NAMES, BUSY, PAUSED }) do try('ZREM', index, unpack(topics)) end
  Dead.forget_newest(topics)
  call('ZREM', SEEN, unpack(topics))
  forgotten = forgotten + #topics
end

-- Forgets topics. It checks fewer if this call removed dead letters.
local function forget_topics()
  local most = math.ceil(CHECKS * left / LETTERS)
  local topics = try('ZRANGE', SEEN, '-inf', text(now - REMEMBER / OFTEN), 'BYSCORE', 'LIMIT', 0, most) or {}
  local seen = {}
  for i, topic in ipairs(topics) do seen[2 * i - 1], seen[2 * i] = now, topic end
  if #seen > 0 then call('ZADD', SEEN, unpack(seen)) end
  for from = 1, #topics, CHUNK do
    local gone = forgettable({ unpack(topics, from, math.min(from + CHUNK - 1, #topics)) })
    if #gone > 0 then forget_all(gone) end
  end
  if #topics == most then full = 1 end
  if forgotten > 0 and #topics == CHECKS then soon = 1 end
end

-- Forgets the places of named listeners in topics.
local function forget_places(topics)
  if #topics == 0 or (try('HLEN', LISTENERS) or math.huge) > MOST_LISTENERS then return end
  local names = call('HGETALL', LISTENERS)
  for i = 1, #names, 2 do try('HDEL', places_of(names[i]), unpack(topics)) end
end

-- The last position of a log in which something is not too old; nil if all is, or that position is past the time.
local function young_in(log)
  if #(try('XRANGE', log, text(YOUNG), '+', 'COUNT', 1) or {}) == 0 then return nil end
  local last = Logs.last_in(log)
  return last <= us and last or nil
end

-- Removes logs in which everything is too old: those of topics without new broadcasts, since the others are trimmed as they grow.
-- If something in such a log is not too old, its indexed position is wrong, and is corrected.
local function remove_logs()
  local topics, gone = try('ZRANGE', LOGS, '-inf', text(YOUNG * 1000), 'BYSCORE', 'LIMIT', log_rank, OLD_LOGS) or {}, 0
  for _, topic in ipairs(topics) do
    local log = log_of(topic)
    local last = young_in(log)
    if last then call('ZADD', LOGS, text(last), topic) elseif call('UNLINK', log) == 1 then gone = gone + 1 end
  end
  log_rank = #topics == OLD_LOGS and log_rank + OLD_LOGS or 0
  if log_rank > 0 then full = 1 end
  if log_rank > 0 and gone > 0 then soon = 1 end
end

-- Forgets the positions of topics that had no broadcast for as long as topics are remembered, and whose logs were removed.
-- The last position of all stays, so that positions only grow.
local function forget_positions()
  local last = Logs.last_sent()
  local old = try('ZRANGE', LOGS, '-inf', text((now - REMEMBER) * 1000), 'BYSCORE', 'LIMIT', 0, POSITIONS) or {}
  local gone = {}
  for _, topic in ipairs(old) do
    if Logs.last_sent_to(topic) ~= last and call('EXISTS', log_of(topic)) == 0 then
      call('ZREM', LOGS, topic)
      gone[#gone + 1] = topic
    end
  end
  if #gone > 0 and #old == POSITIONS then soon = 1 end
  forget_places(gone)
end

-- Removes the entries of CLAIMS between two ranks, of whose messages none is leased any more: all at once, or those of a half after those
-- of the other. Tries is how many times it may look. Returns how many it removed.
local function forget_between(from, to, tries)
  if from > to or tries[1] == 0 then return 0 end
  tries[1] = tries[1] - 1
  local first, last = call('ZRANGE', CLAIMS, from, from, 'WITHSCORES')[2], call('ZRANGE', CLAIMS, to, to, 'WITHSCORES')[2]
  if call('ZCOUNT', LEASED, text(math.floor(first)), '(' .. text(math.floor(last) + 10)) == 0 then
    return call('ZREMRANGEBYRANK', CLAIMS, from, to)
  end
  if to - from < FEW_CLAIMS then return 0 end
  local middle = math.floor((from + to) / 2)
  local gone = forget_between(middle + 1, to, tries) -- first, since it changes no rank of the others
  return gone + forget_between(from, middle, tries)
end

-- Forgets who claimed what is leased no more: among those whose leases end first, and from some other on.
local function forget_claims()
  local all = try('ZCARD', CLAIMS) or 0
  for _, from in ipairs(all > CLAIMED and { us % all, 0 } or all > 0 and { 0 } or {}) do
    local some = math.min(CLAIMED, all - from)
    if forget_between(from, from + some - 1, { 64 }) > some / 2 and all > CLAIMED then soon = 1 end
    all = call('ZCARD', CLAIMS)
  end
end

-- Forgets workers to whose channel nobody is subscribed: they did not say that they stop.
local function forget_workers()
  for _, id in ipairs(try('HRANDFIELD', WORKERS, MOST_WORKERS) or {}) do
    if call('PUBSUB', SHARDED and 'SHARDNUMSUB' or 'NUMSUB', AT .. here_of(id))[2] == 0 then call('HDEL', WORKERS, id) end
  end
end

if Ends.trim_outbox(try('HGET', EXTRAS, '*'), 2000) then soon = 1 end
local by_deaths, unarchived = removed_by_deaths()
remove_aged()
if left > 0 then remove_too_many() end
remove_logs()
forget_topics()
forget_positions()
forget_claims()
forget_workers()
if SHARDED then Standbys.forget_standbys(now) end
if Endings.free_over(IDS, now) then soon = 1 end
local by_acks = removed_by_acks()
local too_many = remove_done()
return {
  1, rank, log_rank, soon, full, left > 0 and rank == 0 and 1 or 0, forgotten, by_deaths, unarchived, removed, done_rank, by_acks + too_many,
}
