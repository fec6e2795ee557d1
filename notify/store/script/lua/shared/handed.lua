-- Leases of named listeners that ended. A process of theirs may have died: another process of that name takes the broadcasts; if none
-- listens, the next one that begins does.

Handed.units = 1
Handed.is_rare = true

function Handed.key() return HANDED end

function Handed.carry(c)
  local ended = Move.due_in(HANDED, c.now, c.slow)
  for i = 1, #ended, 2 do
    if tell(name_of(ended[i]), '') == 0 then
      call('ZREM', HANDED, ended[i])
    else
      call('ZADD', HANDED, c.now + 1000, ended[i]) -- told again then, if that was lost
    end
  end
end
