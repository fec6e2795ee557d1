-- Makes transitions that only read, one behind the other, in one call.
-- ARGV: of each its name, how many arguments it has, and these.
-- Reply: of each its own, or its error.
local given, replies, at = ARGV, {}, 1
while given[at] do
  local behind = at + 2 + given[at + 1]
  ARGV = { unpack(given, at + 2, behind - 1) }
  replies[#replies + 1] = TRANSITIONS[given[at]]()
  at = behind
end
return replies
