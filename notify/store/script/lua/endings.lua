-- Reads the stream of endings.
-- ARGV: how many entries at the most.
-- Reply: entries, oldest first: id; then member, state, ended, reason, attempts, record and result, each behind its name: the last two
--   may be missing. There are fewer when BYTES are full.
local most, from = tonumber(ARGV[1]), '-'
local entries, size = {}, 0
while #entries < most and size < BYTES do
  local page = math.min(most - #entries, size < 65536 and 64 or 8) -- so that few large ones are read in vain
  local got = call('XRANGE', ENDINGS, from, '+', 'COUNT', page)
  for _, entry in ipairs(got) do
    if size >= BYTES then break end
    entries[#entries + 1] = { entry[1], unpack(entry[2]) }
    from = '(' .. entry[1]
    for _, value in ipairs(entry[2]) do size = size + #value end
  end
  if #got < page then break end
end
return entries
