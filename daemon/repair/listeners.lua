-- Looks at what is kept of named listeners: that of names which are not registered.
-- KEYS[10]: listeners, KEYS[11]: handed. ARGV[7..]: names.
for i = 7, #ARGV do
  local name = ARGV[i]
  looked = looked + 1
  if try('HEXISTS', KEYS[10], name) == 0 then
    for _, kept in ipairs({ 'places:', 'held:', 'tries:' }) do
      local key = base .. kept .. name
      if call('EXISTS', key) == 1 and wrong('no listener', name, key, 'removed') then call('UNLINK', key) end
    end
    if try('ZSCORE', KEYS[11], name) and wrong('no listener', name, KEYS[11], 'removed') then call('ZREM', KEYS[11], name) end
  end
end
return answer('0')
