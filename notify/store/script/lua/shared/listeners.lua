-- Registrations of named listeners.

-- Whether there is a push of a name that hands on the broadcasts of a pattern.
function Listeners.is_pushed(push, pattern)
  local ok, of = pcall(cjson.decode, try('HGET', PUSHES, push) or '')
  return ok and type(of) == 'table' and of.broadcasts == true and type(of.topics) == 'table' and of.topics[1] == pattern
end

-- The name under which a push listens.
function Listeners.of_push(push)
  return 'push.' .. push
end

-- Counts a named listener to deaths, by 1 or -1.
local function count_hook(pattern, by)
  if string.sub(pattern, 1, 6) ~= '$dead.' then return end
  local n = try('HINCRBY', HOOKS, pattern, by)
  if by == 1 and not n then
    call('HSET', HOOKS, pattern, 1) -- it was foreign
  elseif by == -1 and (n or 0) <= 0 then
    try('HDEL', HOOKS, pattern)
  end
end

-- Registers a named listener, where it begins in words and in us, and when the name was registered in the first shard. One that is
-- registered stays as it is, but for a push with another pattern: that one has the new pattern from there on, and keeps its places.
-- Returns the registration that holds.
function Listeners.register(name, pattern, words, from, began)
  local before = call('HGET', LISTENERS, name)
  local old = string.match(before or '', '^%S+')
  if before and (old == pattern or string.sub(name, 1, 5) ~= Listeners.of_push('')) then return before end
  local last, floor = text(Logs.last_sent()), '0'
  if tonumber(from) > tonumber(last) then from = last end
  if words == 'beginning' then floor = last end
  local beginning = SHARDED and words .. ' ' .. began or words
  local registration = table.concat({ pattern, beginning, from, floor, string.match(STORE, '%S+$') }, ' ')
  count_hook(pattern, 1)
  call('HSET', LISTENERS, name, registration)
  if before then
    count_hook(old or '', -1)
    tell(name_of(name), '')
  end
  return registration
end

-- Removes a named listener. Returns 1, or 0 if there is none of that name.
function Listeners.unregister(name)
  local pattern = string.match(call('HGET', LISTENERS, name) or '', '^%S+') or ''
  local there = call('HDEL', LISTENERS, name)
  if there == 1 then count_hook(pattern, -1) end
  try('ZREM', ALARMS, name)
  call('DEL', places_of(name), held_of(name), tries_of(name), owners_of(name))
  tell(name_of(name), '')
  return there
end
