-- Checks what is kept of the messages of a topic that have keys. What has a seat is ready, leased or put off, and what is ready or leased has one; what
-- is blocked is in the line, and in no other place; and the line has nothing else. A topic with branches needs no seats. What the housekeeping mends by itself, such as a free seat
-- before a line, a repair mends without a word.
-- KEY: the keys, the seats or the line of the topic.
-- ARGV: those of all (shared/repair.lua); the topic.
-- Reply: that of all.
local topic = ARGV[4]
local us = clock()
local next_page, names = Repair.page_of(KEY == line_of(topic) and 'ZSCAN' or 'HSCAN', KEY)

local function member_of(id) return topic .. ':' .. id end

-- The place of a message, but the line; nil if it has none.
local function place_of(member)
  for _, key in ipairs({ LEASED, ready_of(topic), scheduled_of(topic), dead_of(topic) }) do
    if try('ZSCORE', key, member) then return key end
  end
end

local function examine_key(id)
  local member = member_of(id)
  local key, since = Seats.key_of(topic, member)
  local place = place_of(member)
  if not Repair.is_message(member) then
    if Repair.wrong('of nothing', member, KEY, 'removed') then Seats.forget(topic, { member }) end
  elseif since and place then
    if Repair.wrong('two places', member, line_of(topic), 'removed from there') then
      Seats.take_blocked(topic, member)
      if place == LEASED or place == ready_of(topic) then Seats.seat(topic, key, id) end
    end
  elseif since and not Seats.is_in_line(topic, key, since, id) then
    if Repair.wrong('no place', member, KEY, 'put into the line') then Seats.restore(topic, member, key, since) end
  elseif (place == LEASED or place == ready_of(topic)) and not Seats.are_copied(topic) and not Seats.has_seat(topic, key, id) then
    if Repair.wrong('seat', member, seats_of(topic), 'given its seat') then Seats.seat(topic, key, id) end
  end
end

-- Whether an id may have a seat of a key, as a dead letter or not. One without a record whose key is noted is found by that, and one in no place by
-- its record.
local function may_sit(key, id, died)
  local member, record = member_of(id), call('HGET', MESSAGES, member_of(id))
  if not Repair.is_message(member) then return Seats.key_of(topic, member) == key end
  local place = place_of(member)
  return Messages.options_of(record).key == key and (not place or (place == dead_of(topic)) == died)
end

local function examine_seat(key)
  for _, word in ipairs(Seats.holders(topic, key)) do
    local died, id = string.match(word, '^(!?)(.*)$')
    if not may_sit(key, id, died == '!') then
      if Repair.wrong('seat', member_of(id), KEY, 'taken away') then Seats.unseat(topic, key, id) end
    end
  end
end

local function examine_entry(entry)
  local key, due, id = Seats.entry_parts(entry)
  if key and try('HGET', keys_of(topic), id) == key .. ' ' .. due and Repair.is_message(member_of(id)) then
    if ARGV[1] == '1' then Seats.index_key(topic, key) end
  elseif Repair.wrong('no record', key and member_of(id) or entry, KEY, 'removed') then
    call('ZREM', KEY, entry)
  end
end

-- Checks that the topic is indexed, no later than the first of it that is blocked.
local function examine_index()
  local index = try('ZSCORE', KEYED, topic)
  if index == nil or index and tonumber(index) <= (head_of(heads_of(topic)) or math.huge) then return end
  if Repair.wrong('index', topic, KEYED, 'set to the due time of the first that is blocked') then Seats.index(topic) end
end

local repairs, first, last = ARGV[1] == '1', ARGV[2] == '0', next_page == '0'
if KEY == keys_of(topic) and first and call('EXISTS', keys_of(topic), line_of(topic)) > 0 then examine_index() end
local examine = KEY == keys_of(topic) and examine_key or KEY == seats_of(topic) and examine_seat or examine_entry
for _, name in ipairs(names) do examine(name) end
if KEY == seats_of(topic) and last and repairs then Seats.mend_heads(topic) end
return Repair.report(next_page, #names, us)
