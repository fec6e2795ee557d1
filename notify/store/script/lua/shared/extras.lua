-- What is noted beside the records of few messages: a line of numbers, NAME=NUMBER of each with a space in front, and so the progress of a
-- lease, see Extend.note_progress; and if there is one, behind a newline, the successor: the record of the message that follows under
-- the same id.

-- A number in what is noted of a message; nil if it has none of that name.
function Extras.extra(noted, name)
  return noted and tonumber(string.match(noted, '^[^\n]* ' .. name .. '=(%d+)') or nil) or nil
end

-- The record of the successor in what is noted of a message; nil if it has none.
function Extras.successor_in(noted)
  return string.match(noted or '', '^[^\n]*\n(.*)$')
end

-- What is noted of a message, '' if nothing is; nil if the key is foreign.
function Extras.noted_of(member)
  local noted = try('HGET', EXTRAS, member)
  return noted == false and '' or noted
end

-- Writes all that is noted of a message. Returns whether it could: the key may be foreign.
function Extras.put_noted(member, noted)
  if noted == '' then return try('HDEL', EXTRAS, member) ~= nil end
  return try('HSET', EXTRAS, member, noted) ~= nil
end

-- Notes a number of a message, or with nil that it has none of that name. The rest stays as it is.
function Extras.put_extra(member, name, number)
  local line, rest = string.match(Extras.noted_of(member) or '', '^([^\n]*)(.*)$')
  line = string.gsub(line, ' ' .. name .. '=%d+', '')
  return Extras.put_noted(member, line .. (number and ' ' .. name .. '=' .. text(number) or '') .. rest)
end

-- Notes how far the work on a leased message is, a text without a space; nil: nothing is known of that.
function Extras.put_progress(member, progress)
  local line, rest = string.match(Extras.noted_of(member) or '', '^([^\n]*)(.*)$')
  line = string.gsub(line, ' progress=%S*', '')
  return Extras.put_noted(member, line .. (progress and ' progress=' .. progress or '') .. rest)
end

-- Those of some leased messages that are cancelled when their leases end, see cancel.lua, and the others.
function Extras.part_stopped(members)
  local stopped, others = {}, {}
  local noted = try('HMGET', EXTRAS, unpack(members)) or {}
  for i, member in ipairs(members) do
    local list = Extras.extra(noted[i], 'stop') and stopped or others
    list[#list + 1] = member
  end
  return stopped, others
end

-- Forgets how far the work on messages is whose leases end though no attempt is used up.
function Extras.drop_progress(members)
  for i, noted in ipairs(try('HMGET', EXTRAS, unpack(members)) or {}) do
    if noted and string.find(noted, '^[^\n]* progress=') then Extras.put_progress(members[i], nil) end
  end
end
