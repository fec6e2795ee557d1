// Package doctor examines a Redis, and the service on it: can it hold messages
// safely, may this user do all that Bellhop does, does a carrier live, is anybody
// missing who should handle what is there, and is anything out of place.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/cmd/bellhop/internal/bench"
	"github.com/bellhopd/bellhop/daemon"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
)

// Verdict says how bad a finding is.
type Verdict int

// The verdicts.
const (
	OK   Verdict = iota + 1
	Warn         // works, with a drawback that the operator should know
	Fail         // messages may be lost, or nothing works
)

var verdictNames = [...]string{OK: "ok", Warn: "warn", Fail: "fail"}

// String returns the verdict's name, "ok", "warn" or "fail".
func (v Verdict) String() string {
	if v < OK || v > Fail {
		return fmt.Sprintf("Verdict(%d)", int(v))
	}
	return verdictNames[v]
}

// MarshalText returns the verdict's name.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// A Finding is the result of one check.
type Finding struct {
	Check   string  `json:"check"`
	Verdict Verdict `json:"verdict"`
	Found   string  `json:"found"`
	Remedy  string  `json:"remedy,omitempty"` // what to do, where it is not OK
	Name    string  `json:"name,omitempty"`   // the topic or the named listener, where it is about one

	Repairable bool `json:"repairable,omitempty"` // Repair does it
}

// Checks returns the names of all checks, in the order in which they are made.
func Checks() []string {
	return []string{
		"reachable", "version", "cluster", "persistence", "eviction", "memory", "format", "replicas", "rights", "pub/sub round trip", "clock",
		"carrier", "standby", "overdue", "behind", "paused", "settings", "dead", "listeners", Contents,
	}
}

// Limits beyond which a finding is a warning.
const (
	maxOffset = time.Second           // of Redis's clock from this host's
	maxTrip   = 50 * time.Millisecond // of a ring from a publisher to a subscriber
)

// Options are the options of Run and Repair. The zero value examines all.
type Options struct {
	Quick bool // Run leaves out the look at all keys, which takes half a minute for a million messages

	// Defaults are what the configuration sets for topics that have no settings of their own.
	Defaults notify.SettingsChange

	// OnProgress is told how much of that look is done, of about how much in all;
	// that is 0 while it is unknown. It may be nil, and must not block.
	OnProgress func(looked, all int)
}

// exam is one examination.
type exam struct {
	store *notify.Store
	o     Options
	info  map[string]string // fields of INFO
	trial bool              // the Redis of bellhop dev that keeps all in memory
	on    func(Finding)
	worst Verdict
}

func (e *exam) tell(check string, v Verdict, found, remedy string) {
	e.worst = max(e.worst, v)
	e.on(Finding{Check: check, Verdict: v, Found: found, Remedy: remedy})
}

// Run examines the Redis that c names and the service on it, calls on with each
// finding as it is made, and returns the worst verdict. Last it looks for messages
// that are out of place. It leaves all alone: what it tries, it tries under a
// prefix of its own, and removes. The error is a configuration that cannot be
// used, or that ctx ended: then on was called with what was found until then.
func Run(ctx context.Context, c notify.Config, o Options, on func(Finding)) (Verdict, error) {
	db, err := notify.Open(c)
	if err != nil {
		return Fail, err
	}
	defer db.Close()
	e := &exam{store: db, o: o, worst: OK, on: func(f Finding) {
		if ctx.Err() == nil || f.Check == Contents { // else the check was cut short
			on(f)
		}
	}}
	if !e.reach(ctx) {
		return e.worst, ctx.Err()
	}
	e.version()
	e.cluster()
	e.persistence(ctx)
	e.eviction()
	e.memory(ctx)
	e.format(ctx)
	c.WaitReplicas = e.replicas(c.WaitReplicas)
	fit := e.worst < Fail || e.fit(ctx)
	if fit {
		e.rights(ctx, c)
	} else {
		e.tell("rights", Warn, "not tried on an unfit Redis", "mend what failed above, then ask again")
	}
	e.clock(ctx)
	e.carrier(ctx)
	if fit {
		e.service(ctx)
	}
	if fit && !o.Quick && ctx.Err() == nil {
		e.contents(ctx, false)
	}
	return e.worst, ctx.Err()
}

// reach asks Redis for all that it tells of itself.
func (e *exam) reach(ctx context.Context) bool {
	began := time.Now()
	info, err := e.store.Info(ctx)
	if err != nil {
		remedy := daemon.Remedy(err)
		if remedy == "" {
			remedy = "see to user and password: BELLHOP_REDIS_URL, BELLHOP_REDIS_USERNAME, BELLHOP_REDIS_PASSWORD_FILE; the user needs +info"
		}
		e.tell("reachable", Fail, err.Error(), remedy)
		return false
	}
	e.tell("reachable", OK, fmt.Sprintf("%s answers in %s", e.store.Where(), millis(time.Since(began))), "")
	e.info = info
	e.trial = e.info["redis_version"] == ""
	return true
}

func (e *exam) version() {
	version := e.info["redis_version"]
	major, _, _ := strings.Cut(version, ".")
	var n int
	_, err := fmt.Sscan(major, &n)
	switch {
	case e.trial:
		e.tell("version", Warn, "the trial server of bellhop dev", "use Redis 7.0 or newer, or Valkey, for messages that matter")
	case err != nil || n < store.MinRedis:
		e.tell("version", Fail, version, fmt.Sprintf("use Redis %d.0 or newer, or Valkey", store.MinRedis))
	case e.info["valkey_version"] != "":
		e.tell("version", OK, "Valkey "+e.info["valkey_version"], "")
	default:
		e.tell("version", OK, "Redis "+version, "")
	}
}

const keepRemedy = "run CONFIG SET appendonly yes, and put it into redis.conf"

func (e *exam) persistence(ctx context.Context) {
	const check = "persistence"
	if e.trial {
		e.tell(check, Warn, "none: messages vanish when the trial server ends", "install redis-server; bellhop dev uses it")
		return
	}
	// Not every user may ask for the configuration; without it a part stays unknown.
	config, err := e.store.ServerConfig(ctx)
	known := err == nil
	if e.info["aof_enabled"] != "1" {
		if known && config["save"] == "" {
			e.tell(check, Fail, "none: a restart of Redis loses all messages", keepRemedy)
			return
		}
		e.tell(check, Warn, "snapshots at the most: a crash of Redis loses what came after the last", keepRemedy)
		return
	}
	switch fsync := config["appendfsync"]; {
	case e.info["aof_last_write_status"] == "err":
		e.tell(check, Fail, "append-only file, and the last write to it failed", "see Redis's log; the disk may be full")
	case !known:
		e.tell(check, OK, "append-only file; how often it is synced is unknown, this user may not ask (CONFIG GET)", "")
	case fsync == "no":
		e.tell(check, Warn, "append-only file, appendfsync no: a power cut loses what the kernel had not written, half a minute or so",
			"run CONFIG SET appendfsync everysec, or always to lose nothing")
	case fsync == "always":
		e.tell(check, OK, "append-only file, appendfsync always: a power cut loses nothing that was acknowledged", "")
	default:
		e.tell(check, OK, "append-only file, appendfsync "+fsync+": a power cut loses about a second", "")
	}
}

// format looks whether what the prefix holds is of this version. An error of
// another kind is told by the checks that follow.
func (e *exam) format(ctx context.Context) {
	switch err := e.store.CheckFormat(ctx); {
	case errors.Is(err, notify.ErrUnfit):
		e.tell("format", Fail, err.Error(), "export it with the version that wrote it, or leave it there and use another BELLHOP_PREFIX")
	case err == nil:
		e.tell("format", OK, fmt.Sprintf("%d, or nothing yet", store.Format), "")
	}
}

func (e *exam) eviction() {
	const check, remedy = "eviction", "run CONFIG SET maxmemory-policy noeviction, and put it into redis.conf"
	policy, limit := e.info["maxmemory_policy"], e.info["maxmemory"]
	switch {
	case policy == "":
		e.tell(check, OK, "the server knows no eviction", "")
	case policy == "noeviction":
		e.tell(check, OK, "noeviction, limit "+memory(e.info), "")
	case limit == "0":
		e.tell(check, Warn, "maxmemory-policy "+policy+": harmless while memory has no limit", remedy)
	default:
		e.tell(check, Fail, "maxmemory-policy "+policy+", limit "+memory(e.info)+": messages may be evicted", remedy)
	}
}

func memory(info map[string]string) string {
	if human := info["maxmemory_human"]; human != "" && info["maxmemory"] != "0" {
		return human
	}
	return "none"
}

// fit asks whether this Redis may hold messages: persistence alone does not keep it from that, nor does a missing right.
func (e *exam) fit(ctx context.Context) bool { return !errors.Is(e.store.Check(ctx), notify.ErrUnfit) }

func (e *exam) clock(ctx context.Context) {
	offset, err := bench.Clock(ctx, e.store)
	switch {
	case err != nil:
		e.tell("clock", Fail, err.Error(), "the user needs +time")
	case offset.Abs() > maxOffset:
		e.tell("clock", Warn, fmt.Sprintf("Redis's is %s off from this host's", millis(offset)),
			"run an NTP client on both hosts: absolute due times are judged by Redis's clock; delays are right all the same")
	default:
		e.tell("clock", OK, fmt.Sprintf("Redis's is %s off from this host's", millis(offset)), "")
	}
}

// longestListen is how long a beat is listened for at the most.
const longestListen = 10 * time.Second

// carrier looks whether one is elected, and listens for its beat. One that is
// killed is replaced after a lease, so that after two a beat is overdue.
func (e *exam) carrier(ctx context.Context) {
	const check, remedy = "carrier", "start one: bellhop serve. Until then nothing that is delayed is delivered"
	status, err := carrier.Look(ctx, e.store)
	overdue := max(2*status.Whole, store.Silence)
	within := min(overdue, longestListen)
	heard := status.Name != "" && e.beats(ctx, within)
	if status.Name != "" && !heard {
		status, err = carrier.Look(ctx, e.store)
	}
	switch {
	case err != nil:
		e.tell(check, Fail, err.Error(), "see to the rights of this user, above")
	case status.Name == "":
		e.tell(check, Warn, "none is elected", remedy)
	case heard:
		e.tell(check, OK, fmt.Sprintf("%s, epoch %d, elected %s; its beat is heard", status.Name, status.Epoch, status.Since.Format(time.RFC3339)), "")
	case within < overdue && status.Lease <= status.Whole:
		e.tell(check, Warn, fmt.Sprintf("%s is elected, but no beat was heard in %v", status.Name, within),
			fmt.Sprintf("it may have been killed, then another takes over when its lease ends, in %v; or pub/sub does not reach this host", status.Lease))
	default:
		e.tell(check, Fail, fmt.Sprintf("%s is elected, but no beat was heard in %v", status.Name, within),
			"see that a daemon runs and reaches Redis: bellhop serve. Until then nothing that is delayed is delivered. Or pub/sub does not reach this host")
	}
}

// beats listens for a carrier's beat for a while, and reports whether it heard one.
func (e *exam) beats(ctx context.Context, within time.Duration) (heard bool) {
	ctx, stop := context.WithTimeout(ctx, within)
	defer stop()
	e.store.Hear(ctx, func(event store.Event) {
		if event.Kind == store.Beat {
			heard = true
			stop()
		}
	})
	return heard
}

func millis(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000)
}
