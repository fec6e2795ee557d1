-- Looks for a broadcast in the log of its topic, in a part of the log at a time.
-- ARGV: topic; id; the position behind which to look; how many entries to look at.
-- Reply: the position up to which it looked, '' at the end of the log; then the position and the due time in ms of the last found there.
local topic, id, after, most = unpack(ARGV)
local entries, more = Logs.entries_of(log_of(topic), tonumber(after), '+', tonumber(most), BYTES / 4)
local found
for _, entry in ipairs(entries) do
  if Logs.field_of(entry, 'id') == id then found = entry end
end
local reply = { more and #entries > 0 and text(Logs.position_of(entries[#entries][1])) or '' }
if found then reply[2], reply[3] = text(Logs.position_of(found[1])), Logs.field_of(found, 'due') or '0' end
return reply
