-- Gives the shard another format.
-- ARGV: what the key of the format begins with from now on, in place of LAYOUT.
-- Reply: nothing.
call('SET', FORMAT, ARGV[1] .. string.sub(STORE, #LAYOUT + 1))
return {}
