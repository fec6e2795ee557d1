-- Looks at messages of one topic by name.
-- KEYS[10..13]: ready, waiting, dead and schedule of the topic. ARGV[3..]: members.
-- Reply: for each member, until the records fill BYTES: member, state ('' if there is none), its time in that state in ms,
--   attempts used up, expiry in ms, reason of death, record; each of the last four may be missing.
local members = {}
for i = 3, #ARGV do members[#members + 1] = ARGV[i] end
local places = {
  { 'leased', LEASED }, { 'scheduled', KEYS[13] }, { 'ready', KEYS[10] }, { 'dead', KEYS[12] }, { 'scheduled', BROADCASTS },
}
local reply = {}
for i, record in ipairs(records_of(members)) do
  local member, state, time = members[i], '', false
  for _, place in ipairs(places) do
    time = (place[1] == 'scheduled' and try or call)('ZSCORE', place[2], member)
    if time then
      state = place[1]
      break
    end
  end
  reply[i] = {
    member, state, time, call('HGET', ATTEMPTS, member), call('ZSCORE', EXPIRIES, member),
    call('HGET', DEATHS, member), record,
  }
end
return reply
