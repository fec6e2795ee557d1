-- The history: samples of what happened in a second or a minute, which the carrier makes of the totals that beats return.

-- Makes a ring as long as it will be: one that grows takes up to twice the memory.
local function make_ring(ring, length)
  if call('EXISTS', ring) == 0 then call('SETRANGE', ring, length - 1, '\0') end
end

-- Writes the samples of a beat, if it has some: of a second, and of the minute up to then. With a look it makes the rings, and has claims
-- count their lateness. Returns the totals of messages ever published, acknowledged and dead, then buckets of lateness, each with how many
-- were claimed.
function History.note_history()
  local length_s, length_m, offset_s, sample_s, offset_m, sample_m = unpack(ARGV, 11, 16)
  if ARGV[8] == '1' then
    make_ring(SECONDS, length_s)
    make_ring(MINUTES, length_m)
    try('HSET', TOPICS, '*:history', '1')
  end
  if sample_m then
    try('SETRANGE', SECONDS, offset_s, sample_s)
    try('SETRANGE', MINUTES, offset_m, sample_m)
  end
  local sums = try('HMGET', TOPICS, '*:published', '*:acked', '*:died') or {}
  return { sums[1] or '0', sums[2] or '0', sums[3] or '0', unpack(try('HGETALL', LATE) or {}) }
end
