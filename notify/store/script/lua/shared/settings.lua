-- Settings of topics, and under * those of the store: text in TOPICS, NAME=NUMBER of each with a space in front, but branches=NAME,NAME. A foreign
-- setting counts as not set.

-- A setting as a number; nil if it is not one within its limits.
function Settings.in_range(value, least, most)
  local n = value and not string.find(value, '%D') and tonumber(value)
  if n and n >= least and n <= most then return n end
end

-- A setting by its name: that of a topic, or of the store, either of which may be missing, or the default.
function Settings.get(name, own, common)
  local one = SETTINGS[name]
  return own and Settings.in_range(string.match(own, one.pattern), one.least, one.most)
    or common and Settings.in_range(string.match(common, one.pattern), one.least, one.most)
    or one.fallback
end

-- The settings of a topic, and of the store; false for those without any; nothing if the key is foreign.
function Settings.settings_of(topic)
  return unpack(try('HMGET', TOPICS, topic .. ':settings', '*:settings') or {})
end

-- Whether a topic is paused: nothing of it is handed out, and no subscriber is rung for it.
function Settings.paused(topic)
  local own = try('HGET', TOPICS, topic .. ':settings')
  return Settings.get('paused', own, nil) == 1
end

-- When the pause of a topic ends, in ms, by its own settings; nil if it is not paused, or the pause has no end.
function Settings.pause_end(own)
  local at = own and Settings.get('paused', own) == 1 and Settings.get('paused_until', own) or 0
  return at > 0 and at or nil
end

-- The names of a topic's branches, by its own settings, joined by commas; nil or false if it has none.
function Settings.branches_in(own)
  return own and string.match(own, SETTINGS.branches.pattern)
end

-- Settings as they are written, without foreign ones and with changes by name; '' removes one.
function Settings.written(settings, changes)
  local all = ''
  for _, one in ipairs(SETTINGS) do
    local value = changes[one.name] or string.match(settings, one.pattern) or ''
    if one.is_text and value ~= '' or Settings.in_range(value, one.least, one.most) then all = all .. ' ' .. one.name .. '=' .. value end
  end
  return all
end

-- Writes settings of a topic, or of the store; '' for none.
function Settings.put(topic, settings)
  if settings ~= '' then call('HSET', TOPICS, topic .. ':settings', settings) else call('HDEL', TOPICS, topic .. ':settings') end
end

-- Notes in a store of several shards that its settings were changed: a shard takes over those that were changed later than its own.
function Settings.note_revision(us)
  local last = Settings.in_range(try('HGET', TOPICS, '*:revised'), 0, LAST) or 0
  call('HSET', TOPICS, '*:revised', text(math.max(us, last + 1)))
end
