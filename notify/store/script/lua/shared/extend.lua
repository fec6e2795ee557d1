-- What an extension does. Each function gets the state c of the extension: extend.lua makes it.

-- Makes c.mine, the members whose leases belong to the receipts given, c.position of each, c.given, these receipts by their members, c.leases,
-- pairs of new receipt and member, c.receipt, that of those that have used up no attempt, and c.lost, the positions of the others.
function Extend.find(c, receipts)
  local asked, given, leases = { unpack(receipts) }, {}, {}
  c.mine, c.lost = Leases.leased_under(c.members, receipts)
  c.position = Leases.positions_of(c.members, c.lost)
  c.receipt = Leases.receipt_of(c.us + c.lease * 1000, 0)
  for _, member in ipairs(c.mine) do
    local i = c.position[member]
    local was = receipts[i]
    given[member] = asked[i]
    leases[#leases + 1] = c.lease < 0 and (was % 1 > 0 and asked[i] or was) or c.receipt + math.floor(was) % 10
    leases[#leases + 1] = member
  end
  c.given, c.leases = given, leases
end

-- Leaves those out that are to be cancelled, and adds position and 0 of each to the reply.
function Extend.leave_stopped(c, noted, reply)
  for i = #c.mine, 1, -1 do
    if Extras.extra(noted[i], 'stop') then
      reply[#reply + 1], reply[#reply + 2] = c.position[c.mine[i]], 0
      for _, list in ipairs({ c.mine, noted }) do table.remove(list, i) end
      for _ = 1, 2 do table.remove(c.leases, 2 * i - 1) end
    end
  end
end

-- Returns by their places the receipts of leases that end at another time than is asked for: noted are their EXTRAS.
function Extend.own_receipts(c, noted)
  local own = {}
  for i, extras in ipairs(noted) do
    local ends = Fates.end_of(c.us, c.by_default and Extras.extra(extras, 'lease') or c.lease, extras)
    local its = Leases.receipt_of(ends, c.leases[2 * i - 1] % 10)
    if its ~= c.leases[2 * i - 1] then own[i] = its end
  end
  return own
end

-- Makes who has these, and since when, be known by the new receipts, too: what was claimed by one call has one, and where the end of the
-- lease may differ, what others claimed has another, some us later. Scores are the leases until now; own gets the receipts that differ.
function Extend.note_holders(c, scores, own)
  local known, taken, list = {}, {}, {}
  for i, score in ipairs(scores) do
    local was_base = math.floor(score / 10)
    if not known[was_base] or score % 1 > 0 then known[was_base] = { Attempts.holder_after(c.topic, tonumber(score), c.worker) } end
    local holder, since = unpack(known[was_base])
    if holder then
      local its, who = tonumber(own[i] or c.leases[2 * i - 1]), since .. ' ' .. holder
      local base = its - its % 10
      while c.lease >= 0 and not own[i] and (taken[base] or who) ~= who do base = base + 10 end
      if base + its % 10 ~= its then own[i] = base + its % 10 end
      if taken[base] ~= who then list[#list + 1], list[#list + 2] = text(base), Attempts.entry_of(base, since, c.topic, holder) end
      taken[base] = who
    end
  end
  Attempts.note_holders(list)
end

-- Notes how far the work on a message is, with what tells this lease from the message's others: the attempts used up, and the last digit of
-- the receipt, since what uses up no attempt drops the note.
function Extend.note_progress(member, receipt, progress)
  local used = Leases.used_in(try('HGET', ATTEMPTS, member)) or 0
  local percent, note = string.match(progress, '^(%d+),(.*)$')
  Extras.put_progress(member, percent .. ',' .. used .. ',' .. math.floor(receipt) % 10 .. ',' .. note)
end

-- Gives some leases receipts of their own. Returns position and receipt of each, one behind the other.
function Extend.use_own(c, own)
  local changed = {}
  for i, member in ipairs(c.mine) do
    if own[i] then
      c.leases[2 * i - 1] = own[i]
      changed[#changed + 1] = c.position[member]
      changed[#changed + 1] = own[i]
    end
  end
  return changed
end
