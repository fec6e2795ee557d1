-- Counts who is subscribed to a subscriber's channel at the master of a shard: a replica lets subscribe as well, and counts nobody there.
-- ARGV: id of the subscriber.
-- Reply: how many connections.
return { call('PUBSUB', 'SHARDNUMSUB', AT .. here_of(ARGV[1]))[2] }
