-- Looks once more at who waits for a topic, and was found gone some time ago: inboxes that nobody listens on, and that did not
-- claim since.
-- KEYS[10]: the waiting list. ARGV[7..]: inboxes, each followed by its place in the list.
for i = 7, #ARGV, 2 do
  local inbox, place = ARGV[i], ARGV[i + 1]
  looked = looked + 1
  if try('ZSCORE', KEYS[10], inbox) == place and call('PUBSUB', 'NUMSUB', inbox)[2] == 0
    and wrong('gone', inbox, KEYS[10], 'removed') then
    call('ZREM', KEYS[10], inbox)
  end
end
return answer('0')
