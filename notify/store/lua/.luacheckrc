-- For luacheck, run in this folder. Scripts see what Redis gives them, the keys and names of the table, and what lua/shared holds.
std = 'min'
max_line_length = 160
read_globals = { 'redis', 'cjson', 'unpack', 'call', 'STORE', 'SHARDED', 'BASE', 'PREFIX', 'SHARE', 'KEY', 'setting', 'in_database', 'SETTINGS', 'UNCONFIRMED', table = { fields = { 'remove', 'concat', 'insert', 'sort' } } }
globals = { 'KEYS', 'ARGV' }

local function names_in(file, pattern)
  for line in io.lines(file) do
    local names = line:match(pattern)
    for name in (names or ''):gmatch('[%w_]+') do read_globals[#read_globals + 1] = name end
  end
end

names_in('../table.go', '{lua: "([%w_]+)"')
for file in io.popen('ls shared/*.lua'):lines() do
  names_in(file, '^local function ([%w_]+)')
  names_in(file, '^local ([%w_, ]+) =')
  files[file] = { ignore = { '211', '431' } } -- others use what it defines, and it sees its own
end
