-- What is known about a message.

-- Member, state ('' if it has none), its time in that state in ms, or in us if it is leased, attempts used up, expiry in ms,
-- reason of death, record; each of the last four may be missing.
local function describe(topic, member, record)
  local places = {
    'leased', LEASED, 'scheduled', schedule_of(topic), 'ready', ready_of(topic), 'dead', dead_of(topic), 'scheduled', BROADCASTS,
  }
  local state, time = '', false
  for i = 1, #places, 2 do
    time = try('ZSCORE', places[i + 1], member)
    if time then
      state = places[i]
      if state == 'leased' then time = text(math.floor(time)) end
      break
    end
  end
  return {
    member, state, time or false, try('HGET', ATTEMPTS, member) or false, try('ZSCORE', EXPIRIES, member) or false,
    state == 'dead' and try('HGET', DEATHS, member) or false, record,
  }
end
