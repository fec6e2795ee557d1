-- What is known about a message, and what that costs.

Describe.MATCH = 8 -- so many members are looked at while one is described
Describe.VOLUME = 1024 -- so many bytes of records cost as much as a member

-- The state of a message that has a place, '' if it has none, and its time in that place.
function Describe.place_of(topic, member)
  local places = {
    'leased', LEASED, 'scheduled', scheduled_of(topic), 'ready', ready_of(topic), 'dead', dead_of(topic), 'scheduled', BROADCASTS,
  }
  for i = 1, #places, 2 do
    local time = try('ZSCORE', places[i + 1], member)
    if time then return places[i], time end
  end
  return '', false
end

-- Member, state ('' if it has none), its time in that state in ms, or in us if it is leased, attempts used up and what is known of
-- them, as in ATTEMPTS, expiry in ms, reason of death, record; each of the last four may be missing; and what is noted beside the
-- record. Of a leased one the name of the worker that has it and since when in ms follow, if that told its name; of a
-- blocked one the ids of those of its key that have a seat or are dead; of a scheduled one that waits for a group how many of that are left. A message that ended
-- is done until a time in ms, and has its record if it is kept.
function Describe.describe(topic, member, record)
  if Messages.is_done(record) then
    local _, now = clock()
    local time = Messages.taken_until(record)
    local kept = time > now and Messages.is_kept(record)
    return {
      member, time > now and 'done' or '', text(time), kept and try('HGET', ATTEMPTS, member) or false, false, false, kept and record or false, '',
    }
  end
  local state, time = Describe.place_of(topic, member)
  local worker, since
  if state == '' then
    local key
    key, time = Seats.key_of(topic, member)
    if time then state, worker = 'blocked', string.gsub(table.concat(Seats.holders(topic, key), ' '), '!', '') end
  end
  if state == 'scheduled' then worker = Callbacks.left_for(member, record) end
  if state == 'leased' then
    worker, since = Attempts.holder_of(topic, time)
    time = text(math.floor(time))
  end
  return {
    member, state, time or false, try('HGET', ATTEMPTS, member) or false, try('ZSCORE', EXPIRIES, member) or false,
    state == 'dead' and try('HGET', DEATHS, member) or false, record or false,
    Extras.noted_of(member) or '', worker, since,
  }
end
