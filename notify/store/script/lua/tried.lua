-- Notes what the endpoint of a push answered last, and when it is asked again. Of one that fails nobody is told: each daemon asks in its
-- turn. One that wants no request until then is closed for all, which are told, unless it is closed for longer: the note has now, too, since
-- that is over where the clock was set back behind it. A push that does not
-- fail by now stays as it is otherwise. Or notes in place of an answer the subject of a push to NATS on which nobody listens, and the stream
-- that stores what is sent there, or nothing; all are told.
-- ARGV: the name of the push; ms until then; the answer; 1 to close it, 2 to note a stream, or 0.
-- Reply: 1, or 0 if nothing is noted.
local name, pause, answer, closes = unpack(ARGV, 1, 4)
local push, note = call('HGET', PUSHES, name), '*' .. name
local _, now = clock()
local next = now + tonumber(pause)
local at = text(next)
if not push then return { 0 } end
if closes == '1' then
  local before, since = string.match(try('HGET', PUSHES, note) or '', '^(%d+)-?(%d*)')
  if tonumber(before or 0) >= next and (tonumber(since) or 0) <= now then return { 0 } end -- else the clock was set back
  at = at .. '-' .. text(now)
elseif closes == '0' and not string.find(push, '"failing":', 1, true) then
  return { 0 }
end
call('HSET', PUSHES, note, at .. ' ' .. answer)
if closes ~= '0' then tell(PUSHES, name) end
return { 1 }
