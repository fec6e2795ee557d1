#!lua flags=no-writes
-- Asks Redis whether its user may make the calls that scripts make. It is in no library, and runs whenever Redis takes
-- reads: while it is full, paused or a replica.
-- KEYS[1], or ARGV[2]: a key of the shard. ARGV[1]: commands; behind a bar the argument before the key, a sub-command or a channel.
-- Reply: the commands that the user may not call, and those that Redis does not know. Both are empty if Redis cannot answer that.
local denied, unknown = {}, {}
local key = KEYS[1] or ARGV[2]
for words in string.gmatch(redis.acl_check_cmd and ARGV[1] or '', '%S+') do
  local command, first = string.match(words, '^([^|]*)|?(.*)$')
  local known, may = pcall(redis.acl_check_cmd, command, first ~= '' and first or key, key)
  if not known then
    unknown[#unknown + 1] = words
  elseif not may then
    denied[#denied + 1] = words
  end
end
return { denied, unknown }
