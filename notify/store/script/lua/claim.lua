-- Leases ready messages of a topic to one subscriber, oldest due first, or acknowledges them at once; none while it is paused, and no more
-- than its limits let go.
-- ARGV: topic; how many at the most; lease in ms, 0 for that of its settings, -1 to acknowledge; for how many ms they must have been
--   due; the inbox that waits if there are fewer, or ''; when the last hand-over that it received was made, in us, or 0;
--   the name of the worker, or '' or nothing if it tells none; and of one that only tries a message the member behind which it claims one, ''
--   for the oldest: how late that is does not count.
-- Reply: 1 if there were fewer, and now in us. Then by name what there is of: on_the_way, 1 if nothing was claimed because the inbox has
--   not received a hand-over yet; ripe, in how many ms the oldest ready one is old enough, if none was; attempts, those used up by each, as
--   in ATTEMPTS; claimed, behind which stand the lease in ms, the receipt of each that has used up no attempt, members, their due times,
--   each with how many in a row have it, and their records (missing if a message was buried or dropped instead: it expired, is too late,
--   its record is missing, or it is of another topic); fence, of the first that has a record, if messages of the topic have keys: each other
--   has one more; own, of each that has its own lease its place among those that have records, and its lease in ms; buried and dropped,
--   member and reason of each.
local topic, most, lease, age, inbox, received, worker, behind = unpack(ARGV, 1, 8)
most, lease, age = tonumber(most), tonumber(lease), tonumber(age)
local us, now = clock()
if Claim.is_on_the_way(topic, inbox, received, us) then return { 1, us, 'on_the_way', 1 } end
local own, common, released, history = unpack(try('HMGET', TOPICS, topic .. ':settings', '*:settings', topic .. ':released', '*:history') or {})
local ready, room, rate = ready_of(topic), Limits.room(topic, own, us)
if Settings.get('paused', own, nil) == 1 or room == 0 then -- the inbox waits, so that it is rung when that is over
  Claim.wait(topic, inbox, us)
  if rate and rate.binds and call('EXISTS', ready) == 1 then Rings.wait_for_rate(topic, rate, 0) end
  return { 1, us }
end
local members, dues
if behind then members, dues = Claim.find_behind(ready, behind, now - age) else members, dues = Claim.find(ready, now - age, math.min(most, room)) end
if not members[1] then
  Claim.wait(topic, inbox, us)
  local first = age > 0 and (try('ZRANGE', ready, 0, 0, 'WITHSCORES') or {})[2]
  return first and { 1, us, 'ripe', math.ceil(first + age - now) } or { 1, us }
end
if lease == 0 then lease = Settings.get('lease', own, common) end
local n = #members
local records, expiries, attempts, keyed = Claim.read(topic, members)
local runs, all_own = Claim.runs_of(ready, topic, members, dues)
released = Leases.digit_of(released)
local c = {
  topic = topic, ready = ready, us = us, now = now, lease = lease, released = released, history = not behind and history, members = members, runs = runs,
  records = records, expiries = expiries, attempts = attempts, all_own = all_own, behind = behind,
  receipt = Leases.receipt_of(us + lease * 1000, released), -- of what has used up no attempt
  on_time = us - age * 1000, -- the due time, in us, of what is not late
  slots = Limits.has_slots(own), rate = rate,
  fence = keyed and Claim.fence_of(topic, us) or nil,
}
local leases = Claim.leases_of(c)
local used_up = #leases / 2 == n and (lease >= 0 or rate and rate.binds) -- where the limits cut the claim short; else they may let more go
local short = n < most and (n < room or used_up) and n == #members
if short then Claim.wait(topic, inbox, us) elseif inbox ~= '' then try('ZREM', waiting_of(topic), inbox) end
Claim.put_leased(c, leases, worker ~= '' and worker)
if n == room and short and rate and rate.binds then Rings.wait_for_rate(topic, rate, 0) end
if c.history then Claim.count_late(c) end
local reply = Claim.reply(c, short and 1 or 0)
Claim.take(c, leases)
return reply
