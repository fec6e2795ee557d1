-- Reads the pushes.
-- ARGV: names, to read those alone; none for all.
-- Reply: now in ms; then name and JSON of each, in no order; under * how often they were changed, of all; under *NAME when it is asked next, in
--   ms, of one that is closed until then -ms when it was, and the last answer, of one that fails, or is closed; of one to NATS see tried.lua.
local _, now = clock()
local found = { now }
if #ARGV == 0 then
  for i, value in ipairs(try('HGETALL', PUSHES) or {}) do found[i + 1] = value end
  return found
end
local fields = {}
for i, name in ipairs(ARGV) do fields[2 * i - 1], fields[2 * i] = name, '*' .. name end
for i, value in ipairs(try('HMGET', PUSHES, unpack(fields)) or {}) do
  if value then
    found[#found + 1] = fields[i]
    found[#found + 1] = value
  end
end
return found
