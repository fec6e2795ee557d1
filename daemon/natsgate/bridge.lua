-- Moves the place up to which broadcasts were passed on, forward only.
-- KEYS[10]: bridge. ARGV[3]: the place, in us; 0 asks for it.
-- Reply: the place, as MS-US.
local ms, us = string.match(call('GET', KEYS[10]) or '', '^(%d+)-(%d+)$')
local place, to = ms and ms * 1000 + us or 0, tonumber(ARGV[3])
if to > place then
  place = to
  call('SET', KEYS[10], id_of(place))
end
return { id_of(place) }
