-- Settings of topics, and under * those of the store: text in TOPICS, NAME=NUMBER of each with a space in front. One is read by
-- setting('NAME', what is set for a topic, what is set for the store), where either may be missing: that is written out with
-- the number that holds then. What is foreign is as good as not set.

-- A setting as a number, nil where it is none within its limits.
local function in_range(value, least, most)
  local n = value and not string.find(value, '%D') and tonumber(value)
  if n and n >= least and n <= most then return n end
end

-- What is set for a topic, and for the store; false where nothing is, nothing at all where the key is foreign.
local function settings_of(topic)
  return unpack(try('HMGET', TOPICS, topic .. ':settings', '*:settings') or {})
end

-- Whether a topic is paused: nothing of it is handed out, and nobody is rung for it.
local function paused(topic)
  local own = try('HGET', TOPICS, topic .. ':settings')
  return setting('paused', own, nil) == 1
end

-- Settings as they are written, with changes by name, '' for one that is set no more: without what is foreign.
local function written(settings, changes)
  local all = ''
  for _, one in ipairs(SETTINGS) do
    local name, least, most = unpack(one)
    local value = changes[name] or string.match(settings, ' ' .. name .. '=(%S*)') or ''
    if in_range(value, least, most) then all = all .. ' ' .. name .. '=' .. value end
  end
  return all
end
