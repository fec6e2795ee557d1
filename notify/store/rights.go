package store

import (
	"errors"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// The commands that a user of Redis needs; a sub-command follows a bar. Redis
// checks the commands that are sent, and those that transitions call. All but sent and
// functions are rehearsed: a transition stops half way at a call that its user may not
// make, and without the right to use functions it runs as a script.
const (
	listens   = "subscribe psubscribe"
	sent      = "cluster|slots getrange"
	functions = "fcall function|load function|list function|delete"
	runs      = "eval evalsha"
	waits     = "wait"   // for Config.WaitReplicas
	selects   = "select" // another database than 0
	called    = "info time publish pubsub|numsub get set setrange del exists incr pexpire pttl rename unlink" +
		" hget hset hsetnx hdel hlen hmget hgetall hincrby hrandfield hscan zscan" +
		" zadd zrem zscore zmscore zrange zcard zcount zremrangebyrank" +
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
// of channels differ: see [Store.Rights].
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

// Rights returns the least rights of a user of the store: see [Rights].
func (s *Store) Rights() string { return s.known()[0].rights() }

// RepairRights returns the rights of a user who repairs the store: see [RepairRights].
func (s *Store) RepairRights() string { return s.Rights() + allow(sentByRepair, calledByRepair) }

// rights returns the least rights for the store.
func (d *shard) rights() string { return rightsIn(d.database, d.prefix, d.layout.shards) }

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

// A RightsError is the error of a Redis user who lacks a right, or of a command
// that was renamed. If the rehearsal found it, nothing was done; if Redis answered
// it to a call, a script may have stopped half way. Calls succeed again as soon as
// the right is granted.
type RightsError struct {
	Fault  string // what the user may not do, or what Redis answered
	Remedy string // the command that grants the right
	reply  error  // of Redis; nil: the rehearsal found it
}

// Error returns the fault and its remedy.
func (e *RightsError) Error() string { return e.Fault + "; " + e.Remedy }

// Unwrap returns what Redis answered, nil if the rehearsal found the fault.
func (e *RightsError) Unwrap() error { return e.reply }

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

// Refused reports whether err says that Redis does not let its user make a call,
// directly or in a script. The operator must grant the right.
func Refused(err error) bool {
	var known *RightsError
	return errors.As(err, &known) || !SentinelsRefuse(err) && (refusal(err, denials) || refusal(err, renamings))
}

// What Redis answers about a missing right and a renamed command: inside a script
// there is no error code, and each version has its own words.
var (
	denials = []string{
		"NOPERM",
		"The user executing the script can't ", // Redis 7.0
		"ACL failure in script",                // Redis 7.2 and Valkey
	}
	renamings = []string{
		"Unknown Redis command called from script", // Redis
		"Unknown command called from script",       // Valkey
	}
)

// refusal reports whether err is a reply of Redis that begins with one of some
// texts. An error that a script passes on begins with one more ERR.
func refusal(err error, with []string) bool {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return false
	}
	text := reply.Error()
	for found := true; found; {
		text, found = strings.CutPrefix(text, "ERR ")
	}
	return slices.ContainsFunc(with, func(words string) bool { return strings.HasPrefix(text, words) })
}

// refused returns a RightsError, with the remedy, for a refusal by Redis, and any
// other error as it is.
func (d *shard) refused(err error) error {
	var known *RightsError
	switch {
	case errors.As(err, &known), SentinelsRefuse(err):
	case refusal(err, denials):
		return &RightsError{Fault: err.Error(), Remedy: grant(d.rights()), reply: err}
	case refusal(err, renamings):
		return &RightsError{Fault: err.Error(), Remedy: undoRename, reply: err}
	}
	return err
}
