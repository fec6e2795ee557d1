package notify

// Rights returns the least rights of a Redis user for Bellhop under a prefix, as
// ACL SETUSER takes them. The commands are those that it sends, and those that
// its scripts call: Redis looks at both. A subscription to a pattern is allowed
// only where that very pattern is named. WAIT is for Config.WaitReplicas, and
// CLUSTER SLOTS for a Cluster.
func Rights(prefix string) string {
	return "resetkeys ~" + prefix + ":* resetchannels &" + prefix + ":* &" + prefix + ":wake:* &" + prefix + ":dead:* -@all" +
		" +info +time +eval +evalsha +wait +cluster|slots +publish +subscribe +psubscribe +pubsub|numsub" +
		" +get +set +del +exists +incr +pexpire +pttl" +
		" +hget +hset +hdel +hlen +hmget +hincrby +hscan +sadd +srem +sscan" +
		" +zadd +zrem +zscore +zmscore +zrange +zcard +zcount +zremrangebyrank" +
		" +xadd +xtrim +xlen +xrange +xinfo|stream +unlink +hsetnx +hgetall"
}

// RepairRights returns the rights of a user who looks for what is out of place,
// and repairs it: those of Rights, and some that nothing else needs.
func RepairRights(prefix string) string {
	return Rights(prefix) + " +scan +type +hexists +sismember +zscan +xrevrange"
}
