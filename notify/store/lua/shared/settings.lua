-- Settings of topics, and under * those of the store: text in TOPICS, NAME=NUMBER of each with a space in front. A script reads one
-- by setting('NAME', settings of a topic, settings of the store), where either may be missing: before the script is sent that is
-- written out, with the default. A foreign setting counts as not set.

-- A setting as a number; nil if it is not one within its limits.
local function in_range(value, least, most)
  local n = value and not string.find(value, '%D') and tonumber(value)
  if n and n >= least and n <= most then return n end
end

-- The settings of a topic, and of the store; false for those without any; nothing if the key is foreign.
local function settings_of(topic)
  return unpack(try('HMGET', TOPICS, topic .. ':settings', '*:settings') or {})
end

-- Whether a topic is paused: nothing of it is handed out, and no subscriber is rung for it.
local function paused(topic)
  local own = try('HGET', TOPICS, topic .. ':settings')
  return setting('paused', own, nil) == 1
end

-- Settings as they are written, without foreign ones and with changes by name; '' removes one.
local function written(settings, changes)
  local all = ''
  for _, one in ipairs(SETTINGS) do
    local name, least, most = unpack(one)
    local value = changes[name] or string.match(settings, ' ' .. name .. '=(%S*)') or ''
    if in_range(value, least, most) then all = all .. ' ' .. name .. '=' .. value end
  end
  return all
end

-- Notes in a store of several shards that its settings were changed: a shard takes over those that were changed later than its own.
local function note_revision(us)
  local last = in_range(try('HGET', TOPICS, '*:revised'), 0, LAST) or 0
  call('HSET', TOPICS, '*:revised', text(math.max(us, last + 1)))
end
