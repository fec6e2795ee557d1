package reach

import (
	"strconv"
	"strings"
)

// The commands that a user of Redis needs; a sub-command follows a bar. Redis
// checks the commands that are sent, and those that transitions call. All but sent and
// functions are rehearsed: a transition stops half way at a call that its user may not
// make, and without the right to use functions it runs as a script. Whoever may load
// functions may replace them, and a function runs with the rights of its caller: so only
// the operator's user has loads.
const (
	listens   = "subscribe psubscribe"
	sent      = "cluster|slots getrange"
	functions = "fcall function|list"
	loads     = "function|load function|delete"
	runs      = "eval evalsha"
	waits     = "wait"   // for Config.WaitReplicas
	selects   = "select" // another database than 0
	called    = "info time publish pubsub|numsub get set setrange del exists incr pexpire pttl rename unlink" +
		" hget hset hsetnx hdel hlen hmget hgetall hincrby hrandfield hscan zscan" +
		" zadd zrem zscore zmscore zrank zlexcount zrange zcard zcount zremrangebyrank" +
		" xadd xdel xtrim xlen xrange xinfo|stream"

	spublish       = "spublish" // in place of publish where there are several shards
	listensSharded = "ssubscribe sunsubscribe"

	sentByRepair   = "scan type"
	calledByRepair = "hexists xrevrange"
)

// Rights returns the least rights of a Redis user for Bellhop under a prefix, as
// arguments of ACL SETUSER. They hold the commands that Bellhop sends, and those
// that its transitions call: Redis checks both. They name each pattern of channels,
// since Redis allows a subscription only to that very pattern. WAIT is for
// Config.WaitReplicas, and CLUSTER SLOTS for a Cluster. A store of several shards publishes
// and subscribes by other commands, and to no pattern. In another database than 0 the names
// of channels differ: see [Redis.Rights].
func Rights(prefix string, shards int) string { return rightsIn(0, prefix, shards) }

// rightsIn is Rights in a database of Redis.
func rightsIn(database int, prefix string, shards int) string {
	heard := " &" + sharedBy(database) + prefix + ":"
	rights := "resetkeys ~" + prefix + ":* resetchannels" + heard + "*"
	all := []string{listensSharded, sent, functions, runs, waits, calledIn(shards)}
	if shards == 1 {
		rights += heard + "wake:*" + heard + "dead:*"
		all[0] = listens
	}
	if database != 0 {
		all = append(all, selects)
	}
	return rights + " -@all" + allow(all...)
}

// calledIn returns the commands that scripts call in a store of so many shards.
func calledIn(shards int) string {
	if shards == 1 {
		return called
	}
	return strings.NewReplacer(" publish", " "+spublish, " pubsub|numsub", " pubsub|shardnumsub").Replace(called)
}

// RepairRights returns the rights of a user who repairs a store: those of Rights,
// and some that nothing else needs.
func RepairRights(prefix string, shards int) string {
	return Rights(prefix, shards) + allow(sentByRepair, calledByRepair)
}

// LoadRights returns the least rights of a user who loads functions with
// [Redis.LoadFunctions]. It may use no key.
func LoadRights() string {
	return "resetkeys resetchannels -@all" + allow(functions, loads, "cluster|slots")
}

// allow returns the rights to call the commands in lists.
func allow(lists ...string) string {
	var rights strings.Builder
	for _, list := range lists {
		for _, command := range strings.Fields(list) {
			rights.WriteString(" +" + command)
		}
	}
	return rights.String()
}

// missing returns the error for commands that the user may not call, and for those
// that Redis does not know. rights are those that the user should have.
func missing(denied, unknown []string, rights string) *RightsError {
	var faults, remedies []string
	if len(denied) > 0 {
		faults = append(faults, "its user may not call "+strings.Join(denied, ", "))
		remedies = append(remedies, grant(rights))
	}
	if len(unknown) > 0 {
		faults = append(faults, "it does not know "+strings.Join(unknown, ", "))
		remedies = append(remedies, undoRename)
	}
	return &RightsError{Fault: strings.Join(faults, ", and "), Remedy: strings.Join(remedies, "; ")}
}

// grant returns the remedy for missing rights.
func grant(rights string) string { return "run ACL SETUSER NAME " + rights }

// undoRename is the remedy for a command that was renamed.
const undoRename = "take rename-command out of its configuration for that"

// sharedBy returns what the names of a database's channels begin with. All databases of a Redis
// share its channels, so two stores of one prefix would hear each other. No prefix has the sign.
func sharedBy(database int) string {
	if database == 0 {
		return ""
	}
	return strconv.Itoa(database) + "@"
}
