-- Used by nearly every script.

local STRAY = 'member of another topic' -- reason of a member that was buried because it was in a place of another topic
local NO_RECORD = 'record is missing' -- reason of a member that died without a record: one of its name, if any, is of a later message
local BYTES = 4194304 -- a reply holds at most this many bytes of records, and one more record
local LAST = 9007199254740991 -- the last integer that a Lua number holds: what is beyond is foreign
local MAX = 253402300799999 -- ms: the last due time, the end of the year 9999

-- The time in microseconds and in milliseconds. A script reads it once: before Redis 7.2 the clock runs on during a script.
local function clock()
  local t = call('TIME')
  USED = t[1]
  local us = t[1] * 1000000 + t[2]
  return us, math.floor(us / 1000)
end

-- A large number, or a score, as text without an exponent. The trial server formats no text as a number.
local function text(number)
  return string.format('%.0f', number + 0)
end

-- A score as text without an exponent, which nearly all have: that takes a tenth of what text does.
local function unscaled(score)
  return string.find(score, 'e', 1, true) and text(score) or score
end

-- Whether a score, false if there is none, is a number that is given as text. A server may write a large round score with an exponent.
local function is_same(score, number)
  return score == number or score and tonumber(score) == tonumber(number) or false
end

-- The topic of a member; nil if it has none.
local function topic_of(member)
  return string.match(member, '^([^:]+):')
end

-- Whether a topic is valid: a foreign member must not make a key that nobody reads. The deaths of one are told of in $dead.TOPIC, and TOPIC@NAME
-- is a branch of it.
local function is_topic(topic)
  return #topic <= 128 and not string.find(topic, '[^A-Za-z0-9_.-]') and not string.find('.' .. topic .. '.', '..', 1, true)
    or string.sub(topic, 1, 6) == '$dead.' and is_topic(string.sub(topic, 7))
    or #topic <= 128 and string.find(topic, '^[^@$]+@[A-Za-z0-9_-]+$') ~= nil and is_topic(string.match(topic, '^[^@]+'))
end

-- The table that another has under a name; it is made if there is none.
local function table_in(all, name)
  local one = all[name] or {}
  all[name] = one
  return one
end

-- Makes a call that may meet a foreign key or value. Then it returns nil, and the script goes on. Any other error, such as a
-- missing right, ends the script.
local function try(...)
  local reply = redis.pcall(...)
  if type(reply) ~= 'table' or not reply.err then return reply end
  for _, sign in ipairs({ 'WRONGTYPE', 'not an integer', 'would overflow' }) do
    if string.find(reply.err, sign, 1, true) then return end
  end
  error(reply.err, 0)
end

-- Publishes, and returns how many connections received it; nil if Redis refuses that.
local function tell(to, payload)
  local heard = redis.pcall(SHARDED and 'SPUBLISH' or 'PUBLISH', AT .. to, payload)
  return type(heard) == 'number' and heard or nil
end

-- Publishes for programs of any language in a store of several shards, if any listen: what is published costs the shard's replicas.
local function tell_heard(to, payload)
  if call('PUBSUB', 'SHARDNUMSUB', AT .. to)[2] > 0 then tell(to, payload) end
end

-- The score of the first in a sorted set; nil if there is none, or the key is foreign.
local function head_of(key)
  return tonumber((try('ZRANGE', key, 0, 0, 'WITHSCORES') or {})[2])
end

-- Calls f and returns its reply. If f fails it calls undo, then passes the error on.
local function or_undo(undo, f, ...)
  local ok, reply = pcall(f, ...)
  if ok then return reply end
  undo()
  error(reply, 0)
end

-- The n arguments from one on.
local function column(from, n)
  return { unpack(ARGV, from, from + n - 1) }
end
