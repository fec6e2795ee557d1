-- Scans whose pages together hold what was there all the time.

-- The process of this Redis; '' if it does not say. Each process keeps the elements of a key in an order of its own.
local function process()
  local said = redis.pcall('INFO', 'server')
  return type(said) == 'string' and string.match(said, 'run_id:(%x+)') or ''
end

-- Returns a page of a key, as read(command, ...) does, whose cursor names the process. '0' is the beginning. A cursor of another process,
-- before a restart or a failover, would mean other elements: the page is the first one then, and true behind it.
function Scans.page(read, command, key, cursor, most)
  local at, by = string.match(cursor, '^(%d+)_?(%x*)$')
  local now = process()
  local anew = at ~= '0' and by ~= now
  local page = read(command, key, anew and '0' or at, 'COUNT', most)
  if page and page[1] ~= '0' then page[1] = page[1] .. '_' .. now end
  return page, anew
end
