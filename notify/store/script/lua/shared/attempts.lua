-- Who has a message, and what is known of the attempts that failed.

-- The entry in CLAIMS for what was leased under a receipt at a time in ms; 0: that is unknown. Its score is the receipt without its last
-- digit, which differs among the messages of a call.
function Attempts.entry_of(base, since, topic, worker)
  return table.concat({ text(base), since, topic, worker }, ' ')
end

-- The name of the worker that has what is leased under a receipt, and since when in ms, as text, '0' if that is unknown; nil if it did
-- not tell its name. A hand-over that is not confirmed was claimed by nobody, so an entry of its receipt is another's. Where two calls
-- gave one receipt, only what both entries say is known.
function Attempts.holder_of(topic, receipt)
  receipt = tonumber(receipt)
  if not receipt or receipt % 1 ~= 0 then return nil end -- infinity has no rest, either
  local base, worker, since = text(receipt - receipt % 10), nil, nil
  for _, entry in ipairs(try('ZRANGE', CLAIMS, base, base, 'BYSCORE', 'LIMIT', 0, 50) or {}) do
    local at, of, name = string.match(entry, '^%d+ (%d+) (%S+) (%S+)$')
    if of == topic then
      if worker and worker ~= name then return nil end
      since = worker and since ~= at and '0' or at
      worker = name
    end
  end
  return worker, since
end

-- Notes who claims what is leased under a receipt, and under those of messages that have their own lease: own are their places, leases
-- in ms, and whether they are late.
function Attempts.note_claim(receipt, own, lease, now, topic, worker)
  local base = receipt - receipt % 10
  local list = { text(base), Attempts.entry_of(base, now, topic, worker) }
  for i = 2, #own, 3 do
    local its = base + (own[i] - lease) * 1000
    list[#list + 1], list[#list + 2] = text(its), Attempts.entry_of(its, now, topic, worker)
  end
  try('ZADD', CLAIMS, unpack(list))
end

-- What is to be noted of a lease, of a worker if that tells its name, that goes on under another receipt: since when in ms, and the name
-- of whoever has it; nil if that is unknown. A hand-over that is confirmed counts from when it was made.
function Attempts.holder_after(topic, lease, worker)
  if lease % 1 > 0 then return worker ~= '' and worker or nil, text(math.floor(Leases.handed_at(lease) / 1000)) end
  local holder, since = Attempts.holder_of(topic, lease)
  if holder or worker == '' then return holder, since end
  return worker, '0'
end

-- Notes who has leases that go on under other receipts: a list of pairs of score and entry, see entry_of.
function Attempts.note_holders(list)
  if #list > 0 then try('ZADD', CLAIMS, unpack(list)) end
end

-- Uses up so many attempts of a message whose value in ATTEMPTS was read before, 1 or 0, and keeps what is known of the last MOST that
-- failed, if keeps is 1: when it ended, in ms, how long it took, who had it, and why it failed. Name is that of the worker if it tells it,
-- or ''. Returns how many are used up, a foreign value means that none is left; and 1 if memory was short, so that this attempt is not
-- kept, or 0.
function Attempts.note(uses, member, before, receipt, name, ended, reason, keeps, now)
  local MOST, LONGEST = 10, 1024
  local used, lines, forgetful = Leases.used_in(before), '', 0
  if not used then return math.huge, 0 end
  if keeps == 1 then
    lines = string.match(before or '', '\n.*$') or ''
    if Memory.has_room(now) then
      local worker, since = Attempts.holder_after(topic_of(member), receipt, name)
      since = tonumber(since or 0)
      if #reason > LONGEST then reason = string.match(string.sub(reason, 1, LONGEST), '^(.-)[\194-\244]?[\128-\191]*$') end
      lines = lines .. '\n' .. table.concat({
        text(ended), since > 0 and text(math.max(ended - since, 0)) or '-', worker or '-', (string.gsub(reason, '[\r\n]', ' ')),
      }, ' ')
      local _, n = string.gsub(lines, '\n', '')
      for _ = MOST + 1, n do lines = string.match(lines, '^\n[^\n]*(\n.*)$') end
    else
      forgetful = 1
    end
  end
  if try('HSET', ATTEMPTS, member, text(used + uses) .. lines) then return used + uses, forgetful end
  return math.huge, 0
end

-- Takes back that an attempt was used up.
function Attempts.put_attempts(member, before)
  if before then try('HSET', ATTEMPTS, member, before) else try('HDEL', ATTEMPTS, member) end
end
