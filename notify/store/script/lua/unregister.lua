-- Removes a named listener.
-- ARGV: name.
-- Reply: 1, or 0 if there is none of that name.
return { Listeners.unregister(ARGV[1]) }
