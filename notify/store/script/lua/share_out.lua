-- Shares out a claim among several topics by what is ready of each. If nothing is, an inbox waits for all of them.
-- ARGV: how many messages at the most; 1 for the oldest of all, 0 for topic by topic in the order given; for how many ms they must have
--   been due; the inbox, or ''; then of each topic its name, and when the last hand-over that the inbox received was made, in us, or 0.
-- Reply: now in us; if nothing is old enough, in how many ms the oldest ready message is (-1: nothing is ready); the places, from 1, of
--   topics of which the inbox has not received a hand-over yet; then the place of each topic that has a share, and that share, in the
--   order in which to claim.
local most, oldest, age, inbox = unpack(ARGV, 1, 4)
local us, now = clock()
local c = { now = now, most = tonumber(most), age = tonumber(age), open = {}, shares = {} }
local fields = {}
for i = 5, #ARGV, 2 do fields[#fields + 1] = ARGV[i] .. ':settings' end
local settings = try('HMGET', TOPICS, unpack(fields)) or {}

local on_the_way, all = {}, {}
for place = 1, #fields do
  local topic, own = ARGV[3 + 2 * place], settings[place]
  if Claim.is_on_the_way(topic, inbox, ARGV[4 + 2 * place], us) then
    on_the_way[#on_the_way + 1] = place
  else
    all[#all + 1] = topic
    local room, rate = Limits.room(topic, own, us)
    if room == 0 and rate and rate.binds and call('EXISTS', ready_of(topic)) == 1 then Rings.wait_for_rate(topic, rate, 0) end
    if Settings.get('paused', own, nil) ~= 1 and room > 0 then
      c.open[#c.open + 1] = { place = place, topic = topic, room = room, share = 0, at = 2, page = {} }
    end
  end
end
if oldest == '1' then Shares.share_oldest(c) else Shares.share_in_order(c) end
local reply = { us, -1, on_the_way }
for _, one in ipairs(c.shares) do
  reply[#reply + 1] = one.place
  reply[#reply + 1] = one.share
end
if #c.shares == 0 then
  for _, topic in ipairs(all) do Claim.wait(topic, inbox, us) end
  reply[2] = Shares.ripe_in(c)
end
return reply
