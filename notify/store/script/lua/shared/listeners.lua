-- Registrations of named listeners.

-- Whether there is a push of a name that hands on the broadcasts of a pattern.
function Listeners.is_pushed(push, pattern)
  local ok, of = pcall(cjson.decode, try('HGET', PUSHES, push) or '')
  return ok and type(of) == 'table' and of.broadcasts == true and type(of.topics) == 'table' and of.topics[1] == pattern
end

-- Removes a named listener. Returns 1, or 0 if there is none of that name.
function Listeners.unregister(name)
  local pattern = string.match(call('HGET', LISTENERS, name) or '', '^%S+') or ''
  local there = call('HDEL', LISTENERS, name)
  if there == 1 and string.sub(pattern, 1, 6) == '$dead.' and (try('HINCRBY', HOOKS, pattern, -1) or 0) <= 0 then
    try('HDEL', HOOKS, pattern)
  end
  try('ZREM', HANDED, name)
  call('DEL', places_of(name), held_of(name), tries_of(name), owners_of(name))
  tell(name_of(name), '')
  return there
end
