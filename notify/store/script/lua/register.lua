-- Registers a named listener, unless it is registered already; for a push also with another pattern than before. While one is registered for
-- deaths these are broadcast. The name of a push is registered only while there is that push: a daemon may hear late that it is gone.
-- ARGV: name; pattern; where it begins in words, and in us: at the end of the logs at the latest; the push
--   whose name it is, '' for none, and in another shard than the first; there when the name was registered in the first one, in us.
-- Reply: the registration that holds: pattern, where it begins in words; of several shards when the name was registered in the first
--   one, in us; where it begins in us, up to where it misses nothing, and the id of the store; now in us. Nothing if there is no such push.
local name, pattern, words, from, push = unpack(ARGV, 1, 5)
if push ~= '' and not Listeners.is_pushed(push, pattern) then return {} end
local now = text((clock()))
return { Listeners.register(name, pattern, words, from, ARGV[6] or now), now }
