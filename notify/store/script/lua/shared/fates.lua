-- What becomes of messages that ask for something.

-- The end of a lease that begins or is extended now, in us: no extension goes beyond the timeout of a try.
function Fates.end_of(us, lease, noted)
  return math.min(us + lease * 1000, Extras.extra(noted, 'until') or math.huge)
end

-- Why an attempt ended with its lease.
function Fates.cause_of(member, receipt)
  local ended = Extras.extra(try('HGET', EXTRAS, member), 'until')
  return ended and math.floor(ended / 10) == math.floor(receipt / 10) and 'try timed out' or 'lease expired'
end

-- What becomes of a claimed message that is a stray, has no record, has expired, or has a marked record: its fate, 'dead', 'dropped' or
-- 'stray', and the reason; both nil if it is leased, and then its lease in ms. It buries the message if that is its fate; the caller
-- drops it, and takes it out of its place. Lease is that of the claim, less than 0 if there is none.
function Fates.fate_of(topic, member, record, used, expired, lease, us)
  local LONGEST = 86400000 -- ms: the longest lease
  local now, options, fault = math.floor(us / 1000), Messages.options_of(record or ''), nil
  if string.find(member, topic .. ':', 1, true) ~= 1 then
    fault = STRAY
  elseif not record then
    fault = NO_RECORD
  elseif expired then
    fault = 'expired'
    if options.fail == 'drop' then return 'dropped', fault end
  elseif options.late_after and now > (Messages.first_due_of(record) or now) + options.late_after then
    fault = 'late'
    if options.late == 'drop' then return 'dropped', fault end
  end
  if fault and Dead.bury(topic, member, fault, used, now) then return 'dead', fault end
  if fault == STRAY then return 'stray' end -- it cannot be buried, so it is only taken out
  if lease < 0 then return nil, nil, lease end
  local longest = math.min(math.floor(options.try or LONGEST), LONGEST)
  if options.lease then
    lease = math.min(math.floor(options.lease), LONGEST)
    Extras.put_extra(member, 'lease', lease)
  end
  if options.try then Extras.put_extra(member, 'until', us + longest * 1000) end
  return nil, nil, math.min(lease, longest)
end
