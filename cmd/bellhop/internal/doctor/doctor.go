// Package doctor examines a Redis and the service on it: whether Redis keeps
// messages safely, whether this user may do all that Bellhop does, whether a
// carrier is alive, whether workers or listeners are missing, and whether anything
// in the store is out of place. Each finding names a remedy.
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
	"github.com/bellhopd/bellhop/daemon/archive"
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
	Remedy  string  `json:"remedy,omitempty"` // what to do if the verdict is not OK
	Name    string  `json:"name,omitempty"`   // the topic or the named listener concerned, if any

	Repairable bool `json:"repairable,omitempty"` // Repair can apply the remedy
}

// Checks returns the names of all checks in the order in which they run.
func Checks() []string {
	return []string{
		"reachable", "version", "cluster", "persistence", "eviction", "memory", "format", "replicas", "rights", "pub/sub round trip", "clock",
		"carrier", "standby", "overdue", "behind", "paused", "settings", "dead", "listeners", "archive", Contents,
	}
}

// Above these limits a finding is a warning.
const (
	maxOffset = time.Second           // of Redis's clock from this host's
	maxTrip   = 50 * time.Millisecond // of a ring from a publisher to a subscriber
)

// Options are the options of Run and Repair. The zero value runs all checks.
type Options struct {
	Quick bool // Run leaves out Contents, which reads all keys and takes half a minute for a million messages

	// Defaults are the topic settings in the configuration, for topics without settings of their own.
	Defaults notify.SettingsChange

	// Archive are the options of the archive in the configuration; without a URL there is none.
	Archive archive.Options

	// OnProgress, if not nil, is called while Contents runs with the number of items
	// examined and about how many there are in all, or 0 while that is unknown. It
	// must not block.
	OnProgress func(examined, all int)
}

// exam is one examination.
type exam struct {
	store     *notify.Store
	inspector *notify.Inspector
	o         Options
	info      map[string]string // fields of INFO
	trial     bool              // the in-memory Redis of bellhop dev
	on        func(Finding)
	worst     Verdict
}

func (e *exam) report(check string, v Verdict, found, remedy string) {
	e.worst = max(e.worst, v)
	e.on(Finding{Check: check, Verdict: v, Found: found, Remedy: remedy})
}

// Run examines the Redis that c names and the service on it, calls on with each
// finding at once, and returns the worst verdict. The check of the contents comes
// last. Run changes nothing: it tries rights under a prefix of its own, and removes
// that afterwards. The error is that of a configuration that cannot be used, or of
// ctx: on has then been called with the findings so far.
func Run(ctx context.Context, c notify.Config, o Options, on func(Finding)) (Verdict, error) {
	db, err := notify.Open(c)
	if err != nil {
		return Fail, err
	}
	defer db.Close()
	inspector, err := notify.NewInspector(db)
	if err != nil {
		return Fail, err
	}
	e := &exam{store: db, inspector: inspector, o: o, worst: OK, on: func(f Finding) {
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
		e.report("rights", Warn, "not tried on an unfit Redis", "fix what failed above, then run bellhop doctor again")
	}
	e.clock(ctx)
	e.carrier(ctx)
	if fit {
		e.service(ctx)
		e.archive(ctx)
	}
	if fit && !o.Quick && ctx.Err() == nil {
		e.contents(ctx, false)
	}
	return e.worst, ctx.Err()
}

// reach reads INFO, and reports whether Redis answered.
func (e *exam) reach(ctx context.Context) bool {
	began := time.Now()
	info, err := e.store.Home().Info(ctx)
	if err != nil {
		remedy := daemon.Remedy(err)
		if remedy == "" {
			remedy = "check user and password: BELLHOP_REDIS_URL, BELLHOP_REDIS_USERNAME, BELLHOP_REDIS_PASSWORD_FILE; the user needs +info"
		}
		e.report("reachable", Fail, err.Error(), remedy)
		return false
	}
	e.report("reachable", OK, fmt.Sprintf("%s answers in %s", e.store.Address(), millis(time.Since(began))), "")
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
		e.report("version", Warn, "the trial server of bellhop dev", "use Redis 7.0 or newer, or Valkey, for messages that matter")
	case err != nil || n < store.MinRedis:
		e.report("version", Fail, version, fmt.Sprintf("use Redis %d.0 or newer, or Valkey", store.MinRedis))
	case e.info["valkey_version"] != "":
		e.report("version", OK, "Valkey "+e.info["valkey_version"], "")
	default:
		e.report("version", OK, "Redis "+version, "")
	}
}

const keepRemedy = "run CONFIG SET appendonly yes, and put it into redis.conf"

func (e *exam) persistence(ctx context.Context) {
	const check = "persistence"
	if e.trial {
		e.report(check, Warn, "none: messages vanish when the trial server ends", "install redis-server; bellhop dev then uses it")
		return
	}
	// Not every user may read the configuration; without it appendfsync is unknown.
	config, err := e.store.Home().ServerConfig(ctx)
	known := err == nil
	if e.info["aof_enabled"] != "1" {
		if known && config["save"] == "" {
			e.report(check, Fail, "none: a restart of Redis loses all messages", keepRemedy)
			return
		}
		e.report(check, Warn, "snapshots at most: a crash of Redis loses everything since the last one", keepRemedy)
		return
	}
	switch fsync := config["appendfsync"]; {
	case e.info["aof_last_write_status"] == "err":
		e.report(check, Fail, "append-only file, and the last write to it failed", "see Redis's log; the disk may be full")
	case !known:
		e.report(check, OK, "append-only file; how often it is synced is unknown, since this user may not run CONFIG GET", "")
	case fsync == "no":
		e.report(check, Warn, "append-only file, appendfsync no: a power cut loses what the kernel has not written yet, about half a minute",
			"run CONFIG SET appendfsync everysec (or always, to lose nothing), and put it into redis.conf")
	case fsync == "always":
		e.report(check, OK, "append-only file, appendfsync always: a power cut loses nothing that was acknowledged", "")
	default:
		e.report(check, OK, "append-only file, appendfsync "+fsync+": a power cut loses about a second", "")
	}
}

// format checks that the prefix holds the format of this version. Other errors are
// left to the checks that follow.
func (e *exam) format(ctx context.Context) {
	switch err := e.store.CheckFormat(ctx); {
	case errors.Is(err, notify.ErrUnfit):
		e.report("format", Fail, err.Error(), "export it with the version that wrote it, or leave it there and use another BELLHOP_PREFIX")
	case err == nil:
		e.report("format", OK, fmt.Sprintf("%d, or nothing yet", store.Format), "")
	}
}

func (e *exam) eviction() {
	const check, remedy = "eviction", "run CONFIG SET maxmemory-policy noeviction, and put it into redis.conf"
	policy, limit := e.info["maxmemory_policy"], e.info["maxmemory"]
	switch {
	case policy == "":
		e.report(check, OK, "the server has no eviction", "")
	case policy == "noeviction":
		e.report(check, OK, "noeviction, limit "+memory(e.info), "")
	case limit == "0":
		e.report(check, Warn, "maxmemory-policy "+policy+": harmless while memory has no limit", remedy)
	default:
		e.report(check, Fail, "maxmemory-policy "+policy+", limit "+memory(e.info)+": messages may be evicted", remedy)
	}
}

func memory(info map[string]string) string {
	if human := info["maxmemory_human"]; human != "" && info["maxmemory"] != "0" {
		return human
	}
	return "none"
}

// fit reports whether this Redis may hold messages. Missing persistence or a
// missing right does not make it unfit.
func (e *exam) fit(ctx context.Context) bool { return !errors.Is(e.store.Check(ctx), notify.ErrUnfit) }

func (e *exam) clock(ctx context.Context) {
	offset, err := bench.Clock(ctx, e.store)
	switch {
	case err != nil:
		e.report("clock", Fail, err.Error(), "the user needs +time")
	case offset.Abs() > maxOffset:
		e.report("clock", Warn, fmt.Sprintf("Redis's clock is %s off this host's", millis(offset)),
			"run an NTP client on both hosts: Redis's clock decides when an absolute due time has come; delays are not affected")
	default:
		e.report("clock", OK, fmt.Sprintf("Redis's clock is %s off this host's", millis(offset)), "")
	}
}

// longestListen is the longest wait for a beat.
const longestListen = 10 * time.Second

// carrier checks that a carrier is elected and waits for its beat. A killed carrier
// is replaced after one lease, so no beat within two leases is a failure.
func (e *exam) carrier(ctx context.Context) {
	const check, remedy = "carrier", "start one: bellhop serve. Until then no delayed message is delivered"
	status, err := carrier.Look(ctx, e.store.Home())
	overdue := max(2*status.Whole, store.Silence)
	within := min(overdue, longestListen)
	heard := status.Name != "" && e.beats(ctx, within)
	if status.Name != "" && !heard {
		status, err = carrier.Look(ctx, e.store.Home())
	}
	switch {
	case err != nil:
		e.report(check, Fail, err.Error(), "see the check of rights above")
	case status.Name == "":
		e.report(check, Warn, "none is elected", remedy)
	case heard:
		e.report(check, OK, fmt.Sprintf("%s, epoch %d, elected %s; its beat arrives", status.Name, status.Epoch, status.Since.Format(time.RFC3339)), "")
	case within < overdue && status.Lease <= status.Whole:
		e.report(check, Warn, fmt.Sprintf("%s is elected, but no beat arrived in %v", status.Name, within),
			fmt.Sprintf("if it was killed, another takes over when its lease ends, in %v; if it runs, pub/sub does not reach this host", status.Lease))
	default:
		e.report(check, Fail, fmt.Sprintf("%s is elected, but no beat arrived in %v", status.Name, within),
			"check that a daemon runs and reaches Redis: bellhop serve. Until then no delayed message is delivered. If one runs, pub/sub does not reach this host")
	}
}

// beats waits for a carrier's beat, and reports whether one arrived in time.
func (e *exam) beats(ctx context.Context, within time.Duration) (heard bool) {
	ctx, stop := context.WithTimeout(ctx, within)
	defer stop()
	e.store.Subscribe(ctx, func(event store.Event) {
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
