-- The carriers that stand by in a store of several shards. Each notes in every shard how many shards it carries, so that all carry
-- about as many.

local STANDBY = 10000 -- ms for which such a note counts: a standby renews it at least every 5 s
local FRESH = 2000 -- ms for which it is true enough to hand a shard over
local MOST_STANDBYS = 100 -- looked at in one call

-- How many shards a standby carries, by its note; nil if that is foreign, or older than an age in ms.
local function held_by(note, age, now)
  local held, at = string.match(note, '^(%d%d?%d?) (%d+)$')
  local since = now - (tonumber(at) or math.huge)
  return since >= 0 and since <= age and tonumber(held) or nil
end

-- Names of standbys, each with its note behind it.
local function notes_of_standbys()
  return try('HRANDFIELD', STANDBYS, MOST_STANDBYS, 'WITHVALUES') or {}
end

-- How many shards each standby carries whose note is not older than an age in ms, by its name.
local function standbys(age, now)
  local notes, held = notes_of_standbys(), {}
  for i = 1, #notes, 2 do held[notes[i]] = held_by(notes[i + 1], age, now) end
  return held
end

-- The standby that carries the fewest shards, of several the first by name; nil if there is none.
local function least_of(held)
  local least
  for name, n in pairs(held) do
    if not least or n < held[least] or n == held[least] and name < least then least = name end
  end
  return least
end

-- The standby to hand the shard over to, if its carrier has more, and how many shards it carries; nil if none said so lately.
-- A carrier that died said so longer ago than most of its lease.
function Standbys.taker_of_shard(lease, now)
  local held = standbys(math.min(lease * 2 / 3, FRESH), now)
  local name = least_of(held)
  return name and { name, held[name] }
end

-- The standby that takes over: the one that is named, or one for the n-th shard, from 0 on, that a carrier gives up, if each goes to
-- the standby that carries the fewest by then. '' if there is none.
function Standbys.heir_to_shard(name, n)
  if name ~= '' then return name end
  local _, now = clock()
  local held = standbys(STANDBY, now)
  for _ = 0, math.min(tonumber(n), 255) do
    name = least_of(held)
    if not name then return '' end
    held[name] = held[name] + 1
  end
  return name
end

-- Notes that a carrier stands by, and how many shards it carries.
function Standbys.note_standby(name, held, now)
  try('HSET', STANDBYS, name, held .. ' ' .. text(now))
end

-- Forgets that a carrier stands by.
function Standbys.forget_standby(name)
  return try('HDEL', STANDBYS, name) or 0
end

-- Forgets standbys that said nothing for long.
function Standbys.forget_standbys(now)
  local notes = notes_of_standbys()
  for i = 1, #notes, 2 do
    if not held_by(notes[i + 1], STANDBY, now) then Standbys.forget_standby(notes[i]) end
  end
end
