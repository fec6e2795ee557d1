-- Shares out a claim among several topics by what is ready of each. If nothing is, an inbox waits for all of them.
-- ARGV: how many messages at the most; 1 for the oldest of all, 0 for topic by topic in the order given; for how many ms they must have
--   been due; the inbox, or ''; then of each topic its name, and when the last hand-over that the inbox received was made, in us, or 0.
-- Reply: now in us; if nothing is old enough, in how many ms the oldest ready message is (-1: nothing is ready); the places, from 1, of
--   topics of which the inbox has not received a hand-over yet; then the place of each topic that has a share, and that share, in the
--   order in which to claim.
local most, oldest, age, inbox = unpack(ARGV, 1, 4)
most, age = tonumber(most), tonumber(age)
local us, now = clock()
local fields = {}
for i = 5, #ARGV, 2 do fields[#fields + 1] = ARGV[i] .. ':settings' end
local settings = try('HMGET', TOPICS, unpack(fields)) or {}

-- Whether a hand-over is on its way to the inbox: it is older than what could be claimed.
local function is_handed(topic, received)
  if inbox == '' then return false end
  local handed = tonumber(try('ZSCORE', waiting_of(topic), inbox) or 0) - Rings.HANDOVER
  return handed >= 0 and handed ~= tonumber(received) and math.abs(us - handed) < UNCONFIRMED
end

local open, on_the_way, all = {}, {}, {}
for place = 1, #fields do
  local topic, own = ARGV[3 + 2 * place], settings[place]
  if is_handed(topic, ARGV[4 + 2 * place]) then
    on_the_way[#on_the_way + 1] = place
  else
    all[#all + 1] = topic
    if Settings.get('paused', own, nil) ~= 1 then open[#open + 1] = { place = place, topic = topic, share = 0, at = 2, page = {} } end
  end
end

local shares = {}
local function give(one, n)
  if one.share == 0 then shares[#shares + 1] = one end
  one.share = one.share + n
  most = most - n
end

-- Notes the due time of the first message of a topic behind its share; nil if there is none. They are read a page at a time.
local FEW = 16
local function note_due(one)
  local topic = one.topic
  if one.at > #one.page then
    one.page, one.at = call('ZRANGE', ready_of(topic), '-inf', now - age, 'BYSCORE', 'LIMIT', one.share, FEW, 'WITHSCORES'), 2
  end
  one.due, one.at = tonumber(one.page[one.at]), one.at + 2
end

if oldest == '1' then
  for _, one in ipairs(open) do note_due(one) end
  while most > 0 do
    local first
    for _, one in ipairs(open) do
      if one.due and (not first or one.due < first.due) then first = one end
    end
    if not first then break end
    give(first, 1)
    note_due(first)
  end
else
  for _, one in ipairs(open) do
    local topic = one.topic
    local n = most > 0 and math.min(most, call('ZCOUNT', ready_of(topic), '-inf', now - age)) or 0
    if n > 0 then give(one, n) end
  end
end

local reply, ripe = { us, -1, on_the_way }, nil
for _, one in ipairs(shares) do
  reply[#reply + 1] = one.place
  reply[#reply + 1] = one.share
end
if #shares > 0 then return reply end
for _, topic in ipairs(inbox ~= '' and all or {}) do try('ZADD', waiting_of(topic), text(us), inbox) end
for _, one in ipairs(age > 0 and open or {}) do
  local topic = one.topic
  local first = tonumber(call('ZRANGE', ready_of(topic), 0, 0, 'WITHSCORES')[2])
  if first then ripe = math.min(ripe or first, first) end
end
if ripe then reply[2] = math.ceil(ripe + age - now) end
return reply
