-- How a claim is shared out among topics. Each function gets the state c of the claim: share_out.lua makes it.

-- Gives n more messages of the claim to a topic.
local function give(c, one, n)
  if one.share == 0 then c.shares[#c.shares + 1] = one end
  one.share = one.share + n
  c.most = c.most - n
end

-- Notes the due time of the first message of a topic behind its share; nil if there is none, or its limits let no more go. They are read a
-- page at a time.
local function note_due(c, one)
  local topic = one.topic
  if one.share == one.room then
    one.due = nil
    return
  end
  if one.at > #one.page then
    one.page, one.at = call('ZRANGE', ready_of(topic), '-inf', c.now - c.age, 'BYSCORE', 'LIMIT', one.share, Claim.FEW, 'WITHSCORES'), 2
  end
  one.due, one.at = tonumber(one.page[one.at]), one.at + 2
end

-- Shares out by the due times of all topics.
function Shares.share_oldest(c)
  for _, one in ipairs(c.open) do note_due(c, one) end
  while c.most > 0 do
    local first
    for _, one in ipairs(c.open) do
      if one.due and (not first or one.due < first.due) then first = one end
    end
    if not first then break end
    give(c, first, 1)
    note_due(c, first)
  end
end

-- Shares out topic by topic.
function Shares.share_in_order(c)
  for _, one in ipairs(c.open) do
    local topic = one.topic
    local n = c.most > 0 and math.min(c.most, one.room, call('ZCOUNT', ready_of(topic), '-inf', c.now - c.age)) or 0
    if n > 0 then give(c, one, n) end
  end
end

-- In how many ms the oldest ready message is old enough; -1 if nothing is ready.
function Shares.ripe_in(c)
  local ripe
  for _, one in ipairs(c.age > 0 and c.open or {}) do
    local topic = one.topic
    local first = tonumber(call('ZRANGE', ready_of(topic), 0, 0, 'WITHSCORES')[2])
    if first then ripe = math.min(ripe or first, first) end
  end
  return ripe and math.ceil(ripe + c.age - c.now) or -1
end
