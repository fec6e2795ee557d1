-- Tells the workers of a name that are there, a page of all, that a message is to be cancelled which one of them has.
-- ARGV: cursor; how many workers to look at, or some more; what the JSON of those of that name begins with; the member.
-- Reply: the cursor of the next page, '0' at the end.
local cursor, most, begins, member = unpack(ARGV)
local page = try('HSCAN', WORKERS, cursor, 'COUNT', most) or { '0', {} }
for i = 1, #page[2], 2 do
  if string.sub(page[2][i + 1], 1, #begins) == begins then tell(here_of(page[2][i]), member) end
end
return { page[1] }
