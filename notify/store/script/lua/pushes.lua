-- Reads the pushes.
-- ARGV: names, to read those alone; none for all.
-- Reply: name and JSON of each, in no order; under * how often they were changed, of all; under *NAME of one that fails when it is asked next,
--   in ms, and the last answer.
if #ARGV == 0 then return try('HGETALL', PUSHES) or {} end
local fields, found = {}, {}
for i, name in ipairs(ARGV) do fields[2 * i - 1], fields[2 * i] = name, '*' .. name end
for i, value in ipairs(try('HMGET', PUSHES, unpack(fields)) or {}) do
  if value then
    found[#found + 1] = fields[i]
    found[#found + 1] = value
  end
end
return found
