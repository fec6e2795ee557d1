-- Reads names of topics by name, in ranges of them.
-- ARGV[3]: how many at the most; then the two ends of each range, as ZRANGE takes them.
-- Reply: names, in the order of the ranges.
local names, most = {}, tonumber(ARGV[3])
for i = 4, #ARGV, 2 do
  if #names == most then break end
  for _, name in ipairs(try('ZRANGE', TOPICS .. '-names', ARGV[i], ARGV[i + 1], 'BYLEX', 'LIMIT', 0, most - #names) or {}) do
    names[#names + 1] = name
  end
end
return names
