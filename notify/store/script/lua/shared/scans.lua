-- Scans whose pages together hold what was there all the time.

-- The process of this Redis; '' if it does not say. Each process keeps the elements of a key in an order of its own.
local function process()
  local said = redis.pcall('INFO', 'server')
  return type(said) == 'string' and string.match(said, 'run_id:(%x+)') or ''
end

-- Returns a page of a key, as read(command, ...) does, and an error instead if another process gave the cursor: after a restart or a
-- failover it would mean other elements. '0' is the beginning.
function Scans.page(read, command, key, cursor, most)
  local at, by = string.match(cursor, '^(%d+)@?(%x*)$')
  local now = process()
  if at ~= '0' and by ~= now then return nil, redis.error_reply('RESTARTED another process gave the cursor') end
  local page = read(command, key, at, 'COUNT', most)
  if page and page[1] ~= '0' then page[1] = page[1] .. '@' .. now end
  return page
end
