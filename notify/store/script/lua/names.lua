-- Reads names of topics, sorted, in ranges of them.
-- ARGV: how many at the most; then the two ends of each range, as ZRANGE takes them.
-- Reply: names, in the order of the ranges.
local most = tonumber(ARGV[1])
local names = {}
for i = 2, #ARGV, 2 do
  if #names == most then break end
  for _, name in ipairs(try('ZRANGE', NAMES, ARGV[i], ARGV[i + 1], 'BYLEX', 'LIMIT', 0, most - #names) or {}) do
    names[#names + 1] = name
  end
end
return names
