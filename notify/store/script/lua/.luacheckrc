-- For luacheck, which reads the library as it is joined: a module may not know what stands behind it.
std = 'min'
max_line_length = 160
read_globals = { 'redis', 'cjson', 'unpack', 'KEYS', 'ARGV', table = { fields = { 'remove', 'concat', 'insert', 'sort' } } }
ignore = { '211/.*_of', '231/MARK', '211/NEWEST_FORMAT' } -- what only Go reads
