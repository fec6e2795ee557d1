-- Rejects a message. It uses up an attempt, and ends the message if that was the last, or buries it if told to. Or puts it off, which
-- uses up none.
-- ARGV: topic; member; receipt; when it is due again, in ms from now, or '' for a random wait by its settings, and how many millionths
--   of the longest wait that is; reason; bury to bury it at once, keep to put it off, wait to do so to the end of its time to live at the
--   latest, or ''; the name of the worker, or ''.
-- Reply: its state now, scheduled, dead, dropped or cancelled, or '' if the lease is lost; attempts used up; its due time in ms; 1 if memory was
--   short, so that this attempt is not among those that are kept. Where it cannot be put off: expires, and when in ms (0 if it has);
--   or often, and how often it was put off.
local topic, member, receipt, delay, share, reason, how, worker = unpack(ARGV, 1, 8)
local us, now = clock()
local lease = call('ZSCORE', LEASED, member)
if not Leases.is_under(member, lease, receipt) then return { '' } end
local noted = try('HGET', EXTRAS, member)
if Extras.extra(noted, 'stop') then
  Endings.cancel_leased(topic, { member }, { lease })
  return { 'cancelled', 0, now, 0 }
end
local own, common = Settings.settings_of(topic)
local before = try('HGET', ATTEMPTS, member)
local c = {
  topic = topic, member = member, delay = delay, share = share, reason = reason, worker = worker, us = us, now = now, lease = lease,
  own = own, common = common, noted = noted, before = before, used = Leases.used_in(before) or math.huge,
}
local options = Messages.options_of(call('HGET', MESSAGES, member))
if how == 'keep' or how == 'wait' then return Nack.put_off(c, how == 'wait') end
if how == 'bury' then return Nack.bury(c) end
if c.used + 1 < (options.attempts or Settings.get('attempts', own, common)) then return Nack.retry(c) end
return options.fail == 'drop' and Nack.drop(c) or Nack.bury(c)
