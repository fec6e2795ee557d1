-- Dead letters. They stand in the place of a topic, which need not be that of their member: one that stood in a place of another
-- topic is buried there, and what has no topic in that of NOWHERE.

local NOWHERE = '_'

-- Whether dead letters of a topic are where a member belongs: it is of that topic, or of none. Elsewhere a member is a stray: the
-- message of that name is none of theirs.
local function is_at_home(place, member)
  local topic = topic_of(member)
  return not topic or not is_topic(topic) or topic == place
end

local function foreign_dead(topic)
  return redis.error_reply('the dead letters of ' .. topic .. ' are foreign: ' .. dead_of(topic))
end

-- Takes note of when the oldest of some dead letters died, so that the housekeeping finds them when it is too old.
local function note_oldest(place)
  local oldest = head_of(dead_of(place))
  if oldest then
    try('ZADD', OLDEST, text(oldest), place)
  else
    try('ZREM', OLDEST, place)
    try('ZREM', NEWEST, place)
  end
end

-- Keeps why some die or died, a list of member and reason each, before they stand anywhere; and forgets it where they do not.
local function put_reasons(list) try('HSET', DEATHS, unpack(list)) end
local function take_reasons(members) try('HDEL', DEATHS, unpack(members)) end

-- Lays a list, pairs of time and member, down among the dead letters of a place. Oldest and newest are the least and the greatest
-- of its times. Nobody is told.
local function put_dead(place, list, oldest, newest)
  local key = dead_of(place)
  if not try('ZCARD', key) then return false end
  try('ZADD', OLDEST, 'LT', oldest, place)
  try('ZADD', NEWEST, 'GT', newest, place)
  call('ZADD', key, unpack(list))
  return true
end

-- Has topics stand no more where the newest deaths are told: for who forgets topics that have no dead letters.
local function forget_newest(topics)
  try('ZREM', NEWEST, unpack(topics))
end

-- Removes dead letters for good. The record of one that died because it had none is another message's, published since, and
-- that of a stray is none of theirs.
local function remove_dead(place, members)
  local reasons = try('HMGET', DEATHS, unpack(members)) or {}
  local records, told = {}, {}
  for i, member in ipairs(members) do
    local own = is_at_home(place, member)
    if own and reasons[i] ~= NO_RECORD then records[#records + 1] = member end
    if own or reasons[i] == STRAY then told[#told + 1] = member end
  end
  if #records > 0 then forget(records) end
  if #told > 0 then try('HDEL', DEATHS, unpack(told)) end
  call('ZREM', dead_of(place), unpack(members))
end

-- Takes dead letters of a topic out, of which the records live on, with all their attempts.
local function take_dead(topic, members)
  call('ZREM', dead_of(topic), unpack(members))
  try('HDEL', DEATHS, unpack(members))
  try('HDEL', ATTEMPTS, unpack(members))
end

-- Removes the oldest of some dead letters where they are more than are kept, but not the one that was added: two at the most, so
-- that they become fewer with each death. How many are kept the housekeeping wrote down, and it is told how many this removed.
local function keep_most(place, added)
  local most = tonumber(try('HGET', KEPT, 'most') or nil)
  local over = most and call('ZCARD', dead_of(place)) - most or 0
  if over <= 0 then return end
  local gone = {}
  for _, member in ipairs(call('ZRANGE', dead_of(place), 0, math.min(over, 2) - 1)) do
    if member ~= added then gone[#gone + 1] = member end
  end
  if #gone == 0 then return end
  remove_dead(place, gone)
  try('HINCRBY', KEPT, 'removed', #gone)
end

-- Buries a member among the dead letters of a place, and tells programs of other languages. The caller takes it out of where it
-- was afterwards.
local function bury(place, member, reason, attempts, now)
  if not put_dead(place, { now, member }, now, now) then return false end
  local topic, id = string.match(member, '^([^:]+):(.*)$')
  if is_at_home(place, member) then
    try('HSET', DEATHS, member, reason)
    if topic and is_topic(topic) then
      count(topic, 'died', 1)
      count_all('died', 1)
    end
  else
    try('HSETNX', DEATHS, member, reason)
  end
  if topic then tell(death_of(topic), cjson.encode({ id = id, reason = reason, attempts = attempts })) end
  keep_most(place, member)
  return true
end

-- Undoes bury, for who cannot take the member out of where it was.
local function unbury(place, member)
  try('HDEL', DEATHS, member)
  call('ZREM', dead_of(place), member)
end

-- What lays down dead letters that died elsewhere: few calls do.
local function undertaker()
  return { put_reasons = put_reasons, take_reasons = take_reasons, put_dead = put_dead }
end
