-- The head of each call. Variables of the library outlive a call, also one that failed, and serve all stores of a server: what a call
-- has of its own is in `current`, and what is kept is made from the key of the format and the last argument alone.

local names_of, named = {}, 0 -- names of keys by the key of the format, and of how many stores
local MOST_NAMED = 1000

local function name_keys(format)
  local names = names_of[format]
  if not names then
    local base = string.sub(format, 1, -#'format' - 1)
    local sharded = string.sub(base, -4) ~= '{0}:'
    names = names_under(base, sharded and base or string.sub(base, 1, -5), sharded)
    if named == MOST_NAMED then names_of, named = {}, 0 end
    names_of[format], named = names, named + 1
  end
  set_names(names)
end

-- What a call has of its own, in current: heirs, and what else a module in front of a colon writes and others read, nil until then. A
-- constructor that named all would make room for them in each call.
--   heirs     Dead, Endings: members that died, whose successors are to be published
--   settings  Seats: by topic, what was read of its settings and of those of the store
--   keyed     Seats: whether keys of messages were noted
--   may_drop  Seats: by member, true for those that are to be dropped where they would be blocked
--   blocked   Seats: by member, of those that were put into a line and not called up, drop if they are to be dropped, or true
--   leaving   Seats: by topic, key and id, true for who leaves a seat, ! for who bars the key; of a key without ids a seat may be free
--   grouped   Groups: by topic and member, acked, dead, dropped, cancelled or copied, for who may have left its group or died
--   moved     Groups: by topic and number of a group, how many were given another group
--   dropped   Endings: by member, true for those of blocked that settle dropped
--   left      Limits: by topic, members whose leases ended and whose slots are not given back yet
--   rings     Limits: by topic of left, for how many messages settle is to ring
--   carries   Rings: true in a call of the carrier
--   copying   Rings: true once there is something to copy into branches, in such a call
--   dead      Rings: how many inboxes were found that nobody is subscribed to
--   notes     Leases: keys of the notes by which the leases of receipts were known
--   noted     Ends: by member, the id of its entry in the stream of endings
--   findings  Repair: lists of what is wrong, the name, the key and the remedy

-- Begins a call. The last argument is SHARE/AT/LAYOUT: the share of memory for messages in percent, what channels of its database
-- begin with, and what the value of the key of the format must begin with. Returns the error if that is another or is missing.
local function begin_call(keys, args)
  local last = #args
  local with = args[last]
  args[last] = nil
  ARGV, KEY, call, current = args, keys[2], redis.call, { heirs = {} }
  if keys[1] ~= FORMAT then
    FORMAT = nil
    name_keys(keys[1])
    FORMAT = keys[1]
  end
  if with ~= READ then
    SHARE, AT, LAYOUT = string.match(with, '^(%d+)/([^/]*)/(.*)$')
    READ = with
  end
  STORE = call('GET', FORMAT)
  if not STORE then return redis.error_reply('NOSTORE there is no store yet') end
  if string.sub(STORE, 1, #LAYOUT) ~= LAYOUT then return redis.error_reply('FORMAT ' .. STORE) end
end

local function run(name, keys, args)
  local refusal = begin_call(keys, args)
  if refusal then return refusal end
  local reply = TRANSITIONS[name]()
  Endings.settle()
  return reply
end

-- Makes a transition a function of the library.
local function register(name, flag)
  redis.register_function{
    function_name = LIBRARY .. '_' .. name, flags = { flag }, callback = function(keys, args) return run(name, keys, args) end,
  }
end

-- Makes a function that returns for how many seconds the library was not used, so that a later version can delete it. That counts from
-- the first call at the latest: a library forgets it when Redis restarts.
local function register_idle()
  redis.register_function{
    function_name = LIBRARY .. '_idle', flags = { 'no-writes' }, callback = function()
      local now = redis.call('TIME')[1]
      USED = USED or now
      return now - USED
    end,
  }
end
