-- Changes settings of a topic, or of the store. It rings subscribers of a topic that it resumes, or whose limits it changes.
-- ARGV: topic, or *; 1 to change only what is not set, and of the backoff only what agrees with what is; then name and number of
--   each setting, '' to remove it, and of branches all names, joined by commas, +NAME to add one, or -NAME to remove one; behind paused, if the pause has an end, paused_until, as Pauses.end_asked takes it.
-- Reply: 1, the settings of the topic now, and of the store, '' if there are none; or 0, and nothing is changed: if the longest wait after
--   the first attempt would be above that after many, both, in ms; 0 twice if there would be a burst without a rate; 0 and now in ms if
--   a pause would end in the past, or too late; and of branches why not, and of how many, see Branches.fault.
local topic, only_missing = ARGV[1], ARGV[2] == '1'
local us, now = clock()
local before, common = Settings.settings_of(topic)
if before == nil then return Counters.foreign_counters() end
local of_store = topic == '*'

local changes = {}
local kept = Settings.written(before or '', {})
if of_store then changes.paused = '' end -- only single topics are paused
for i = 3, #ARGV, 2 do
  if not (only_missing and string.find(kept, ' ' .. ARGV[i] .. '=', 1, true)) then changes[ARGV[i]] = ARGV[i + 1] end
end
if changes.branches then changes.branches = Branches.changed(Settings.branches_in(before) or '', changes.branches) end
if changes.paused_until then
  changes.paused_until = Pauses.end_asked(changes.paused_until, us)
  if not changes.paused_until then return { 0, 0, now } end
elseif changes.paused then
  changes.paused_until = ''
end
local after, least, most
local function apply()
  after = Settings.written(kept, changes)
  if of_store then common = after end
  least, most = Settings.get('backoff_min', after, common), Settings.get('backoff_max', after, common)
end
apply()
if only_missing and least > most then -- the bound that is set already holds, and the new one contradicts it
  changes.backoff_min, changes.backoff_max = nil, nil
  apply()
end
if (changes.backoff_min or changes.backoff_max) and least > most then return { 0, least, most } end

local function has(name, of) return Settings.get(name, of or '') > 0 end
if has('burst', after) and not has('rate', after) then return { 0, 0, 0 } end
local fault, n = Branches.fault(topic, before or '', after)
if fault then return { 0, fault, n } end

local pause_end = Settings.pause_end(after)
if changes.paused and pause_end then Pauses.note_end(topic, pause_end) end -- first, so that no such pause lasts for good
if after ~= '' or before then Settings.put(topic, after) end

local of_seats = changes.key_concurrency or changes.on_retry or changes.on_dead or changes.branches
if of_store then
  if SHARDED then if after ~= (before or '') then Settings.note_revision(us) end end
  if of_seats then Seats.mend_first() end
  return { 1, after, after }
end

-- Updates the indexes of pauses, and what is kept for limits.
local function index()
  if has('paused', after) then try('ZADD', PAUSED, 'NX', now, topic) else try('ZREM', PAUSED, topic) end
  if changes.paused and not pause_end then Pauses.note_end(topic, nil) end
  if changes.concurrency then Limits.count_leases(topic, has('concurrency', before), has('concurrency', after)) end
  if has('rate', before) and not has('rate', after) then
    try('HDEL', TOPICS, topic .. ':spent')
    Rings.forget_rate(topic)
  end
end

-- Rings if more may be claimed now.
local function ring()
  local ready = try('ZCARD', ready_of(topic)) or 0
  if ready > 0 and (has('paused', before) or changes.concurrency or changes.rate or changes.burst or changes.branches) then Rings.ring(topic, ready, us) end
end

if after ~= '' then Counters.remember(topic) elseif before then Counters.forget_if_unused(topic) end
index()
if changes.branches then Branches.begin(topic, before or '', after) end
if of_seats then Seats.mend_some({ topic }) end
ring()
return { 1, after, common or '' }
