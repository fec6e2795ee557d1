-- What a step of the housekeeping removes and forgets. Each function gets the state c of the step: sweep.lua makes it.
local LETTERS = 200 -- dead letters removed in one call
local PAGE = 500 -- dead letters of a topic that are looked at together for those that bar no key
local LOOKS = 1000 -- looked at in one call, of those too old, and as many of those too many
local AGED = 50 -- topics checked for dead letters that are too old
local TOO_MANY = 200 -- topics checked for too many dead letters
local CHECKS = 280 -- topics checked for whether anything is left
local STRIKES = 100 -- inboxes without a subscriber that are struck off waiting lists
local CHUNK = 56 -- topics whose counters are read at a time
local POSITIONS = 50 -- positions forgotten in one call
local OLD_LOGS = 20 -- old logs removed in one call
local SEATS = 1700 -- seats looked at in one call, and keys that have a line
local MEMBERS = 1000 -- members of groups looked at in one call
local IDS = 500 -- ids freed in one call
local DONE_TOPICS = 50 -- topics checked for too many that succeeded
local KEPT_ONES = 50 -- of these removed in one call
local CLAIMED = 2000 -- entries of calls that claimed, checked at a time
local FEW_CLAIMS = 8 -- so few are looked at together
local MOST_WORKERS = 100 -- checked in one call
local MOST_LISTENERS = 200 -- named listeners: if there are more, their places in forgotten topics stay
local OFTEN = 8 -- checks of a topic in the time for which it is remembered
local EVER = { 'published', 'sent', 'acked', 'died', 'dropped', 'lateness', 'fence', 'spent', 'released', 'idle' } -- counters that keep no topic alive

-- The state of a step: its arguments, and what it has done. See sweep.lua.
function Sweep.begin(arguments, us, now)
  return {
    us = us, now = now,
    rank = tonumber(arguments[2]), most_dead = arguments[3], keep = tonumber(arguments[3]), age = tonumber(arguments[4]),
    remember = tonumber(arguments[5]),
    young = now - arguments[6], -- ms: what is older in a log is too old
    log_rank = tonumber(arguments[7]), most_done = arguments[8], done_age = arguments[9], done_rank = tonumber(arguments[10]),
    seat = arguments[11], group = arguments[12],
    soon = 0, -- 1: there is more to do soon
    full = 0, -- 1: there are more topics to check
    forgotten = 0, removed = {}, left = LETTERS, strikes = STRIKES,
  }
end

-- Up to n of the oldest dead letters of a topic, among some, but those that bar a key. If all the oldest do, it looks at some others, at a
-- different page in each step.
local function oldest_free(c, topic, n, among)
  if not Seats.are_in(topic) then return call('ZRANGE', dead_of(topic), 0, n - 1) end
  local free, elsewhere = {}, math.floor(c.us % among / PAGE) * PAGE
  for _, from in ipairs(elsewhere > 0 and { 0, elsewhere } or { 0 }) do
    local most = math.min(PAGE, among - from, c.looks)
    if most > 0 and #free == 0 then
      free = Seats.without_bars(topic, call('ZRANGE', dead_of(topic), from, from + most - 1))
      c.looks = c.looks - most
    end
  end
  return { unpack(free, 1, math.min(n, #free)) }
end

-- Removes n of the oldest dead letters of a topic, among some, as far as this call may, but those that bar a key.
local function remove(c, topic, n, among)
  local most = math.min(n, c.left)
  local gone = most > 0 and oldest_free(c, topic, most, among) or {}
  if gone[1] then
    Dead.remove_dead(topic, gone, c.now)
    c.removed[#c.removed + 1] = topic
    c.removed[#c.removed + 1] = #gone
    if #gone < n then c.soon = 1 end
  end
  c.left = c.left - #gone
  Dead.note_oldest(topic)
end

-- Removes dead letters that are too old: of a page of topics, another one in each step, and from another topic on, so that those whose dead
-- letters stay, since they bar a key, hide no other.
function Sweep.remove_aged(c)
  local before, checked = '(' .. text(c.now - c.age), 0
  local all = try('ZCOUNT', OLDEST, '-inf', before) or 0
  local from = math.floor(c.us % math.max(all, 1) / AGED) * AGED
  local topics = all > 0 and call('ZRANGE', OLDEST, from, math.min(from + AGED, all) - 1) or {}
  c.looks = LOOKS
  while checked < #topics and c.left > 0 do
    local topic = topics[(checked + c.us) % #topics + 1]
    local aged = try('ZCOUNT', dead_of(topic), '-inf', before) or 0
    remove(c, topic, aged, aged)
    checked = checked + 1
  end
  if checked < all and c.left < LETTERS then c.soon = 1 end
end

-- Checks a page of topics. If this call may remove no more, the next one checks the same page again; if it may not look at more, the next one
-- begins with the topic at which this one ended, or behind it if it looked at no other.
function Sweep.remove_too_many(c)
  local topics = try('ZRANGE', OLDEST, c.rank, c.rank + TOO_MANY - 1) or {}
  c.looks = LOOKS
  for i, topic in ipairs(topics) do
    local all = try('ZCARD', dead_of(topic)) or 0
    if all > c.keep or all == 0 then remove(c, topic, math.max(all - c.keep, 0), all) end
    if c.left == 0 then return end
    if c.looks == 0 then
      c.rank = c.rank + math.max(i - 1, 1)
      return
    end
  end
  c.rank = #topics == TOO_MANY and c.rank + TOO_MANY or 0
end

-- Writes for each death how many dead letters to keep, and returns how many deaths removed since the last call, and how many entries of
-- the stream of endings were removed.
function Sweep.removed_by_deaths(c)
  local kept = try('HMGET', KEPT, 'most', 'removed', 'unarchived')
  if not kept then return 0, 0 end
  if kept[1] ~= c.most_dead then call('HSET', KEPT, 'most', c.most_dead) end
  if not kept[2] and not kept[3] then return 0, 0 end
  call('HDEL', KEPT, 'removed', 'unarchived')
  return tonumber(kept[2] or 0) or 0, tonumber(kept[3] or 0) or 0
end

-- Writes for each acknowledgement how many that succeeded to keep, and for how long. Returns how many acknowledgements removed since the
-- last call.
function Sweep.removed_by_acks(c)
  local bound, kept = c.most_done .. ' ' .. c.done_age, try('HMGET', KEPT, 'done', 'forgotten')
  if not kept then return 0 end
  if kept[1] ~= bound then call('HSET', KEPT, 'done', bound) end
  if kept[2] then call('HDEL', KEPT, 'forgotten') end
  return tonumber(kept[2] or 0) or 0
end

-- Checks a page of the topics that keep what succeeded. Returns how many it removed.
function Sweep.remove_done(c)
  local topics, gone = try('ZRANGE', DONE, c.done_rank, c.done_rank + DONE_TOPICS - 1) or {}, 0
  for _, topic in ipairs(topics) do
    gone = gone + Endings.trim_done(topic, tonumber(c.most_done), KEPT_ONES - gone, c.now)
    local first = head_of(done_of(topic))
    if first then call('ZADD', DONE, text(first), topic) else call('ZREM', DONE, topic) end
    if gone >= KEPT_ONES then
      c.soon = 1
      return gone
    end
  end
  c.done_rank = #topics == DONE_TOPICS and c.done_rank + DONE_TOPICS or 0
  if c.done_rank > 0 then c.full = 1 end
  return gone
end

-- Whether a subscriber waits for a topic. Inboxes without a subscription are struck off, as far as this call may; a subscriber that
-- is only reconnecting claims then, and waits again.
local function is_waited_for(c, topic)
  local waiting = waiting_of(topic)
  while c.strikes > 0 do
    local inbox = (try('ZRANGE', waiting, 0, 0) or {})[1]
    if not inbox then break end
    if call('PUBSUB', SHARDED and 'SHARDNUMSUB' or 'NUMSUB', AT .. inbox)[2] > 0 then return true end
    call('ZREM', waiting, inbox)
    c.strikes = c.strikes - 1
  end
  return call('EXISTS', waiting) == 1
end

-- Whether nothing is left of a topic that was not used for long: no message, dead letter or broadcast in any place, no subscriber
-- that waits, no setting.
local function is_empty(c, topic)
  for _, n in ipairs(call('HMGET', TOPICS, topic .. ':leased', topic .. ':broadcasts', topic .. ':settings')) do
    if n then return false end
  end
  return call('EXISTS', scheduled_of(topic), ready_of(topic), dead_of(topic), log_of(topic), done_of(topic), keys_of(topic), groups_of(topic)) == 0
    and call('EXISTS', grouped_of(topic)) == 0 and not is_waited_for(c, topic)
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
local function mark(c, topics, published)
  local marks, dropped, since = {}, {}, text(c.now) .. ' '
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
local function forgettable(c, topics)
  local fields = {}
  for i, topic in ipairs(topics) do fields[2 * i - 1], fields[2 * i] = topic .. ':published', topic .. ':idle' end
  local values = try('HMGET', TOPICS, unpack(fields))
  if not values then return {} end
  local gone, changed, published = {}, {}, {}
  for i, topic in ipairs(topics) do
    local sofar, since, before = values[2 * i - 1] or '', string.match(values[2 * i] or '', '^(%d+) (.*)$')
    local over = before == sofar and c.now - since > c.remember and c.now - (Logs.last_sent_to(topic) or 0) / 1000 > c.remember
    if over and is_empty(c, topic) then
      gone[#gone + 1] = topic
    elseif over and c.strikes > 0 or before ~= sofar then -- else the next check goes on with its waiting list
      changed[#changed + 1] = topic
      published[#changed] = sofar
    end
  end
  if #changed > 0 then mark(c, changed, published) end
  return gone
end

-- Forgets some topics.
local function forget_all(c, topics)
  local counters = {}
  for _, topic in ipairs(topics) do
    for _, name in ipairs(EVER) do counters[#counters + 1] = topic .. ':' .. name end
  end
  call('HDEL', TOPICS, unpack(counters))
  for _, index in ipairs({ NAMES, BUSY, PAUSED }) do try('ZREM', index, unpack(topics)) end
  Dead.forget_newest(topics)
  call('ZREM', SEEN, unpack(topics))
  c.forgotten = c.forgotten + #topics
end

-- Forgets topics. It checks fewer if this call removed dead letters.
function Sweep.forget_topics(c)
  local most = math.ceil(CHECKS * c.left / LETTERS)
  local topics = try('ZRANGE', SEEN, '-inf', text(c.now - c.remember / OFTEN), 'BYSCORE', 'LIMIT', 0, most) or {}
  local seen = {}
  for i, topic in ipairs(topics) do seen[2 * i - 1], seen[2 * i] = c.now, topic end
  if #seen > 0 then call('ZADD', SEEN, unpack(seen)) end
  for from = 1, #topics, CHUNK do
    local gone = forgettable(c, { unpack(topics, from, math.min(from + CHUNK - 1, #topics)) })
    if #gone > 0 then forget_all(c, gone) end
  end
  if #topics == most then c.full = 1 end
  if c.forgotten > 0 and #topics == CHECKS then c.soon = 1 end
end

-- Forgets the places of named listeners in topics.
local function forget_places(topics)
  if #topics == 0 or (try('HLEN', LISTENERS) or math.huge) > MOST_LISTENERS then return end
  local names = call('HGETALL', LISTENERS)
  for i = 1, #names, 2 do try('HDEL', places_of(names[i]), unpack(topics)) end
end

-- The last position of a log in which something is not too old; nil if all is, or that position is past the time.
local function young_in(c, log)
  if #(try('XRANGE', log, text(c.young), '+', 'COUNT', 1) or {}) == 0 then return nil end
  local last = Logs.last_in(log)
  return last <= c.us and last or nil
end

-- Removes logs in which everything is too old: those of topics without new broadcasts, since the others are trimmed as they grow.
-- If something in such a log is not too old, its indexed position is wrong, and is corrected.
function Sweep.remove_logs(c)
  local topics, gone = try('ZRANGE', LOGS, '-inf', text(c.young * 1000), 'BYSCORE', 'LIMIT', c.log_rank, OLD_LOGS) or {}, 0
  for _, topic in ipairs(topics) do
    local log = log_of(topic)
    local last = young_in(c, log)
    if last then call('ZADD', LOGS, text(last), topic) elseif call('UNLINK', log) == 1 then gone = gone + 1 end
  end
  c.log_rank = #topics == OLD_LOGS and c.log_rank + OLD_LOGS or 0
  if c.log_rank > 0 then c.full = 1 end
  if c.log_rank > 0 and gone > 0 then c.soon = 1 end
end

-- Forgets the positions of topics that had no broadcast for as long as topics are remembered, and whose logs were removed.
-- The last position of all stays, so that positions only grow.
function Sweep.forget_positions(c)
  local last = Logs.last_sent()
  local old = try('ZRANGE', LOGS, '-inf', text((c.now - c.remember) * 1000), 'BYSCORE', 'LIMIT', 0, POSITIONS) or {}
  local gone = {}
  for _, topic in ipairs(old) do
    if Logs.last_sent_to(topic) ~= last and call('EXISTS', log_of(topic)) == 0 then
      call('ZREM', LOGS, topic)
      gone[#gone + 1] = topic
    end
  end
  if #gone > 0 and #old == POSITIONS then c.soon = 1 end
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
function Sweep.forget_claims(c)
  local all = try('ZCARD', CLAIMS) or 0
  for _, from in ipairs(all > CLAIMED and { c.us % all, 0 } or all > 0 and { 0 } or {}) do
    local some = math.min(CLAIMED, all - from)
    if forget_between(from, from + some - 1, { 64 }) > some / 2 and all > CLAIMED then c.soon = 1 end
    all = call('ZCARD', CLAIMS)
  end
end

-- Forgets workers to whose channel nobody is subscribed: they did not say that they stop.
function Sweep.forget_workers()
  for _, id in ipairs(try('HRANDFIELD', WORKERS, MOST_WORKERS) or {}) do
    if call('PUBSUB', SHARDED and 'SHARDNUMSUB' or 'NUMSUB', AT .. here_of(id))[2] == 0 then call('HDEL', WORKERS, id) end
  end
end

-- Mends the seats of a topic that has keys, a page of them in each step.
function Sweep.mend_seats(c)
  local rank, seats, heads = string.match(c.seat, '^(%d+) (%S+) (%S+)$')
  local topic = (try('ZRANGE', KEYED, rank or 0, rank or 0) or {})[1]
  if not topic then
    c.seat = '0 0 0'
  else
    local next_seats, next_heads = Seats.mend(topic, seats or '0', heads or '0', SEATS)
    if Seats.settle() then c.soon = 1 else seats, heads = next_seats, next_heads end -- else it looks at the same ones again
    if seats .. heads == '--' then
      Seats.index(topic)
      rank, seats, heads = try('ZSCORE', KEYED, topic) and rank + 1 or rank, '0', '0'
    end
    c.seat, c.full = rank .. ' ' .. seats .. ' ' .. heads, 1
  end
end

-- Mends the groups of a topic that has some, a page of them in each step.
function Sweep.mend_groups(c)
  local rank, members, groups = string.match(c.group, '^(%d+) (%S+) (%S+)$')
  local topic = (try('ZRANGE', GROUPED, rank or 0, rank or 0) or {})[1]
  if not topic then
    c.group = '0 0 0'
  else
    members, groups = Callbacks.mend(topic, members or '0', groups or '0', MEMBERS, c.now)
    if members .. groups == '--' then
      members, groups = '0', '0'
      if call('EXISTS', grouped_of(topic), groups_of(topic)) == 0 then call('ZREM', GROUPED, topic) else rank = (rank or 0) + 1 end
    end
    c.group, c.full = (rank or 0) .. ' ' .. members .. ' ' .. groups, 1
  end
end

-- Frees ids that were taken long enough.
function Sweep.free_ids(c)
  if Endings.free_over(IDS, c.now) then c.soon = 1 end
end
