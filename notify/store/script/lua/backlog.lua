-- Counts what the archive has not stored yet.
-- ARGV: none.
-- Reply: entries in the stream of endings; the id of the first, '' if there is none; how many were removed before they were stored, ever; since when
--   there is an archive, in ms, 0 if there is none; how many entries the stream of endings holds.
local noted = Extras.noted_of('*') or ''
local first = (try('XRANGE', ENDINGS, '-', '+', 'COUNT', 1) or {})[1]
return {
  try('XLEN', ENDINGS) or 0, first and first[1] or '', text(tonumber(try('HGET', TOPICS, '*:unarchived') or 0) or 0), Extras.extra(noted, 'archive') or 0,
  Extras.extra(noted, 'room') or 0,
}
