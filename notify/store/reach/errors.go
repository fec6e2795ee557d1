package reach

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrUnfit is the error of a Redis that cannot hold messages safely: too old,
// evicting keys, or with a store of another [Format].
var ErrUnfit = errors.New("unfit redis")

// ErrFormat is the error of a call that is refused until all programs work with a newer format of the store.
var ErrFormat = errors.New("the store has an older format")

// ErrNoRedis is the error where another program answers at the address of Redis.
var ErrNoRedis = errors.New("what answers there is no Redis")

// ErrFull is the error of a publish for which Redis has no memory left: the share
// of maxmemory for messages (Config.MemoryShare) is in use, or all of maxmemory.
// Nothing was published. All else goes on, and publishes succeed again once memory
// is free.
var ErrFull = errors.New("redis is full")

// ErrUnreplicated is the error of a call that Redis carried out, but fewer replicas
// than Config.WaitReplicas confirmed in time. The outcome is unknown: the call
// holds if the master survives, and may be lost if a replica takes its place.
// Repeating the call is safe: a publish with the same id returns ErrExists if the
// first one holds, and that answer is confirmed, too.
var ErrUnreplicated = errors.New("not replicated")

// A ServerError is the error of a call to Redis, with the address.
type ServerError struct {
	Where string // the address, without a password, and which shard, if there are several
	Err   error  // of the connection, or the error that Redis answered

	number int  // of the shard,
	of     bool // which is one of several
}

// Error returns the address and the error.
func (e *ServerError) Error() string { return fmt.Sprintf("redis at %s: %v", e.Where, e.Err) }

// Unwrap returns Err.
func (e *ServerError) Unwrap() error { return e.Err }

// Shard returns the number of the shard, and whether it is one of several.
func (e *ServerError) Shard() (number int, of bool) { return e.number, e.of }

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

// An OtherShardsError is the ErrUnfit for a store that has another number of shards than its
// Config asks for: a fault of the configuration.
type OtherShardsError struct{ err error }

// Error names both numbers, and the remedy.
func (e *OtherShardsError) Error() string { return e.err.Error() }

// Unwrap returns an ErrUnfit.
func (e *OtherShardsError) Unwrap() error { return e.err }

// Retryable reports whether err says that Redis cannot be reached, does not answer, is
// another program, lacks replicas, or refuses its user a right, so that the call may
// succeed later.
func Retryable(err error) bool {
	var op *net.OpError
	var name *net.DNSError
	return NotExecuted(err) || Refused(err) || errors.Is(err, ErrUnreplicated) || errors.Is(err, ErrNoRedis) || errors.Is(err, errAbandoned) || errors.As(err, &op) || errors.As(err, &name) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || // of an idle connection, which go-redis looks at first
		errors.Is(err, redis.ErrClosed) || errors.Is(err, redis.ErrPoolTimeout)
}

// isAway reports whether err says that Redis cannot be reached, or does not answer.
func isAway(err error) bool {
	var reply redis.Error
	return Retryable(err) && !errors.As(err, &reply)
}

// NotExecuted reports whether err says that Redis did not carry out the call, so
// that it may be repeated: it could not be reached, or is loading, busy,
// read-only, failing over, or unable to write its data to disk.
func NotExecuted(err error) bool {
	for _, sign := range []string{"LOADING", "READONLY", "CLUSTERDOWN", "TRYAGAIN", "NOREPLICAS", "MASTERDOWN", "MOVED", "ASK", "BUSY", "MISCONF", "max number of clients"} {
		if redis.HasErrorPrefix(err, sign) {
			return true
		}
	}
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// LockedOut reports whether err says that Redis does not let its user in, such as
// after the password was changed. It is not Retryable: a program that starts must fail
// with it.
func LockedOut(err error) bool { return refusal(err, []string{"NOAUTH", "WRONGPASS"}) }

// Refused reports whether err says that Redis does not let its user make a call,
// directly or in a script. The operator must grant the right.
func Refused(err error) bool {
	var known *RightsError
	return errors.As(err, &known) || !SentinelsRefuse(err) && (refusal(err, denials) || refusal(err, renamings))
}

// Moved reports whether err says that another server of a Cluster holds the keys of a call:
// the URL names only one.
func Moved(err error) bool {
	_, moved := redis.IsMovedError(err)
	return moved
}

// SentinelsRefuse reports whether err says that every sentinel refused to name the
// master: they want a user or password of their own.
func SentinelsRefuse(err error) bool {
	return err != nil && strings.Contains(err.Error(), sentinelsFail) && refusal(err, []string{"NOAUTH", "WRONGPASS", "NOPERM"})
}

// sentinelsFail is what go-redis says if all sentinels answer with an error.
const sentinelsFail = "all sentinels specified in configuration are unreachable"

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

// noRedis returns an ErrNoRedis for an error with which go-redis rejects an answer
// that is not in Redis's protocol, and any other error as it is.
func noRedis(err error) error {
	var known redis.Error
	text := err.Error()
	if errors.As(err, &known) || !strings.HasPrefix(text, "redis: can't parse") && !strings.HasPrefix(text, "redis: invalid reply") {
		return err
	}
	if from, to := strings.Index(text, `"`), strings.LastIndex(text, `"`); from < to {
		return fmt.Errorf("%w: it says %s", ErrNoRedis, text[from:to+1])
	}
	return ErrNoRedis
}

// endOf returns the error of ctx. A connection may notice the deadline first: then
// endOf waits until ctx has ended, so that all who ask know why a call failed.
func endOf(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		<-ctx.Done()
	}
	return ctx.Err()
}
