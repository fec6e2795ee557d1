-- Registers an archive, if there is none: what ends from now on goes into the stream of endings.
-- ARGV: how many entries that holds.
-- Reply: since when there is an archive, in ms.
local _, now = clock()
local since = Extras.extra(Extras.noted_of('*'), 'archive')
if not Extras.put_extra('*', 'room', tonumber(ARGV[1])) or not since and not Extras.put_extra('*', 'archive', now) then
  return redis.error_reply('what is noted of messages is foreign: ' .. EXTRAS)
end
return { since or now }
