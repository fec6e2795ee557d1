package store

import (
	"errors"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// The commands that a user of Redis needs; a bar stands before a sub-command.
// Redis looks at those that are sent, and at those that scripts call. All but the
// first are rehearsed: a script that may not make one of its calls stops half way.
const (
	sent   = "subscribe psubscribe cluster|slots"
	runs   = "eval evalsha"
	waits  = "wait" // for Config.WaitReplicas
	called = "info time publish pubsub|numsub get set del exists incr pexpire pttl unlink" +
		" hget hset hsetnx hdel hlen hmget hgetall hincrby hscan zscan" +
		" zadd zrem zscore zmscore zrange zcard zcount zremrangebyrank" +
		" xadd xtrim xlen xrange xinfo|stream"

	sentByRepair   = "scan type"
	calledByRepair = "hexists xrevrange"
)

// Rights returns the least rights of a Redis user for Bellhop under a prefix, as
// ACL SETUSER takes them. The commands are those that it sends, and those that
// its scripts call: Redis looks at both. A subscription to a pattern is allowed
// only where that very pattern is named. WAIT is for Config.WaitReplicas, and
// CLUSTER SLOTS for a Cluster.
func Rights(prefix string) string {
	return "resetkeys ~" + prefix + ":* resetchannels &" + prefix + ":* &" + prefix + ":wake:* &" + prefix + ":dead:* -@all" +
		allow(sent, runs, waits, called)
}

// RepairRights returns the rights of a user who looks for what is out of place,
// and repairs it: those of Rights, and some that nothing else needs.
func RepairRights(prefix string) string {
	return Rights(prefix) + allow(sentByRepair, calledByRepair)
}

// allow returns the rights to lists of commands.
func allow(lists ...string) string {
	var rights strings.Builder
	for _, list := range lists {
		for _, command := range strings.Fields(list) {
			rights.WriteString(" +" + command)
		}
	}
	return rights.String()
}

// A RightsError is the error of a user of Redis who lacks a right, or of a
// command that was renamed. Where that was found before anything was sent,
// nothing was done; where Redis found it, a script may have stopped half way. The
// next calls go on by themselves when the right is there.
type RightsError struct {
	Fault  string // what the user may not do, or what Redis said
	Remedy string // what gives the right
	reply  error  // of Redis; nil: it was found before
}

// Error says what is missing, and what to do.
func (e *RightsError) Error() string { return e.Fault + "; " + e.Remedy }

// Unwrap returns what Redis said.
func (e *RightsError) Unwrap() error { return e.reply }

// missing returns the error of commands that a user may not call, and of those
// that Redis does not know. rights are what the user should have.
func missing(denied, unknown []string, rights string) *RightsError {
	var faults, remedies []string
	if len(denied) > 0 {
		faults = append(faults, "its user may not call "+strings.Join(denied, ", "))
		remedies = append(remedies, grant(rights))
	}
	if len(unknown) > 0 {
		faults = append(faults, "it does not know "+strings.Join(unknown, ", "))
		remedies = append(remedies, giveBack)
	}
	return &RightsError{Fault: strings.Join(faults, ", and "), Remedy: strings.Join(remedies, "; ")}
}

// grant returns what gives a user rights.
func grant(rights string) string { return "run ACL SETUSER NAME " + rights }

// giveBack is what to do about a command that was renamed.
const giveBack = "take rename-command out of its configuration for that"

// Refused reports whether err says that Redis does not let its user do what was
// asked, or what a script does: it is the operator's to mend.
func Refused(err error) bool {
	var known *RightsError
	return errors.As(err, &known) || !SentinelsRefuse(err) && (refusal(err, denials) || refusal(err, renamings))
}

// What Redis says of a missing right and of a command that was renamed: inside a
// script there is no code for them, and each version has words of its own.
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

// refusal reports whether an error is a reply of Redis that begins with some
// words. An error that a script passes on begins with one ERR more.
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

// refused adds to an error of a missing right what to do.
func (s *Store) refused(err error) error {
	var known *RightsError
	switch {
	case errors.As(err, &known), SentinelsRefuse(err):
	case refusal(err, denials):
		return &RightsError{Fault: err.Error(), Remedy: grant(Rights(s.keys.prefix)), reply: err}
	case refusal(err, renamings):
		return &RightsError{Fault: err.Error(), Remedy: giveBack, reply: err}
	}
	return err
}
