-- Looks at what is kept of named listeners: that of names which are not registered is only told, since who listens under the
-- name next makes the registration again, and goes on from there.
-- KEYS[10]: listeners, KEYS[11]: handed. ARGV[7..]: names.
local HANDED = KEYS[11]

local function look_at(name)
  if try('HEXISTS', KEYS[10], name) == 0 then
    for _, kept in ipairs({ 'places:', 'held:', 'tries:' }) do
      local key = base .. kept .. name
      if call('EXISTS', key) == 1 then wrong('no listener', name, key, '') end
    end
  end
  if call('EXISTS', base .. 'held:' .. name) == 0 and try('ZSCORE', HANDED, name) then
    if wrong('index', name, HANDED, 'removed, since it has nothing in hand') then call('ZREM', HANDED, name) end
  end
end

for i = 7, #ARGV do
  looked = looked + 1
  look_at(ARGV[i])
end
return answer('0')
