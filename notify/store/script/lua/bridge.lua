-- Moves the position up to which broadcasts were passed on to NATS, only forward.
-- ARGV: the position, in us; 0 only reads it.
-- Reply: the position, as MS-US.
local to = tonumber(ARGV[1])
local ms, us = string.match(call('GET', BRIDGE) or '', '^(%d+)-(%d+)$')
local place = ms and ms * 1000 + us or 0
if to > place then
  place = to
  call('SET', BRIDGE, Logs.id_of(place))
end
return { Logs.id_of(place) }
