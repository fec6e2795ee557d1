-- What scripts share that look at messages. It stands behind prelude.lua.

-- What is known of a message: member, state ('' if there is none), its time in that state in ms, or in us if it is leased,
-- attempts used up, expiry in ms, reason of death, record; each of the last four may be missing. The keys are the ready set, the
-- dead letters and the schedule of its topic.
local function look_at(member, record, ready, dead, schedule_)
  local places = { 'leased', LEASED, 'scheduled', schedule_, 'ready', ready, 'dead', dead, 'scheduled', BROADCASTS }
  local state, time = '', false
  for i = 1, #places, 2 do
    time = try('ZSCORE', places[i + 1], member)
    if time then
      state = places[i]
      break
    end
  end
  return {
    member, state, time or false, try('HGET', ATTEMPTS, member) or false, try('ZSCORE', EXPIRIES, member) or false,
    state == 'dead' and try('HGET', DEATHS, member) or false, record,
  }
end
