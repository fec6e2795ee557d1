-- Forgets a daemon, worker or listener that stops.
-- ARGV: its id.
-- Reply: 1, or 0 if it was not noted.
return { try('HDEL', WORKERS, ARGV[1]) or 0 }
