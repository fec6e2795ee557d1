// Package doctor examines a Redis and the service on it: whether Redis keeps
// messages safely, whether this user may do all that Bellhop does, whether a
// carrier is alive, whether workers or listeners are missing, whether schedules fire, and whether anything
// in the store is out of place. Each finding names a remedy.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/daemon/archive"
	"github.com/bellhopd/bellhop/daemon/natsgate"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
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

// Shards is the check of where the shards are, which a store of one shard has not.
const Shards = "shards"

// Checks returns the names of all checks in the order in which they run.
func Checks() []string {
	return []string{
		"reachable", "version", "cluster", Shards, "persistence", "eviction", "memory", "format", "replicas", "rights", "pub/sub round trip", "functions", "clock",
		"carrier", "nats", "standby", "overdue", "behind", "paused", "settings", "dead", "blocked", "listeners", "pushes", "schedules", "archive", Contents,
	}
}

// stops are the checks whose failure stops most, in the order in which that is mended.
var stops = []string{"reachable", "rights", "carrier", "memory", "nats", "archive"}

// First returns the finding to begin with, of all that failed: what it names stops most, and
// others may follow from it. It returns nil if none failed.
func First(all []Finding) *Finding {
	failed := slices.DeleteFunc(slices.Clone(all), func(f Finding) bool { return f.Verdict != Fail })
	if len(failed) == 0 {
		return nil
	}
	return new(slices.MinFunc(failed, func(a, b Finding) int { return cmp.Compare(weight(a), weight(b)) }))
}

// weight is less for what stops more.
func weight(f Finding) int {
	if i := slices.Index(stops, f.Check); i >= 0 {
		return i
	}
	return len(stops)
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

	// WaitReplicas is that of the configuration, from which Run takes it itself.
	WaitReplicas int

	// Archive are the options of the archive in the configuration; without a URL there is none.
	Archive archive.Options

	// NATS are the options of the gateway to NATS in the configuration; without a URL there is none.
	NATS natsgate.Options

	// OnProgress, if not nil, is called while Contents runs with the number of items
	// examined and about how many there are in all, or 0 while that is unknown. It
	// must not block.
	OnProgress func(examined, all int)
}

// exam is one examination.
type exam struct {
	store       *notify.Store
	inspector   *notify.Inspector
	o           Options
	shards      []store.Shard
	sites       []string         // addresses of their servers; nil: there is one shard
	servers     []*server        // that answer
	away        bool             // others do not
	undelivered []notify.Pattern // topics that are pushed to NATS, which is away
	on          func(Finding)
	worst       Verdict
}

// open opens a store. If its user may not read how many shards it has, or the server is not
// the one to ask, it is taken for one of one shard: a check then says what is wrong.
func open(ctx context.Context, c notify.Config) (*notify.Store, error) {
	db, err := notify.Open(c)
	if err != nil {
		return nil, err
	}
	if err := db.Learn(ctx); !reach.Refused(err) && !reach.Moved(err) {
		return db, nil
	}
	_ = db.Close() // it wrote nothing
	c.Shards = 1
	return notify.Open(c)
}

func (e *exam) report(check string, v Verdict, found, remedy string) {
	e.worst = max(e.worst, v)
	e.on(Finding{Check: check, Verdict: v, Found: found, Remedy: remedy})
}

// Run examines the Redis that c names and the service on it, calls on with each
// finding at once, and returns the worst verdict. The check of the contents comes
// last. Run changes nothing but that it loads the functions of its version: it tries rights
// under a prefix of its own, and removes that afterwards. The error is that of a configuration that cannot be used, or of
// ctx: on has then been called with the findings so far.
func Run(ctx context.Context, c notify.Config, o Options, on func(Finding)) (Verdict, error) {
	db, err := open(ctx, c)
	if err != nil {
		return Fail, err
	}
	defer db.Close()
	o.WaitReplicas = c.WaitReplicas
	e, err := newExam(ctx, db, o, on)
	if err != nil {
		return Fail, err
	}
	fit := e.look(ctx, func(waitReplicas int, fit bool) {
		c.WaitReplicas = waitReplicas
		switch {
		case !fit:
			e.report("rights", Warn, "not tried on an unfit Redis", "fix what failed above, then run bellhop doctor again")
		case e.away:
			e.report("rights", Warn, "not tried while a server is away", "have it answer, then run bellhop doctor again")
		default:
			e.rights(ctx, c)
			e.onEach(func(s *server) { s.functions(ctx, e.store.Rights()) })
		}
	})
	if fit && !o.Quick && ctx.Err() == nil {
		e.contents(ctx, false)
	}
	return e.worst, ctx.Err()
}

// Look is a quick Run on an open store, without the checks of rights and of rings, so that it
// writes nothing. It waits for the beat of each carrier, for a second if all is well. The error
// is that of ctx, or a notify.Fault for a nil store; the findings so far are beside it.
func Look(ctx context.Context, db *notify.Store, o Options) ([]Finding, error) {
	o.Quick = true
	var all []Finding
	e, err := newExam(ctx, db, o, func(f Finding) { all = append(all, f) })
	if err != nil {
		return nil, err
	}
	e.look(ctx, func(int, bool) {})
	return all, ctx.Err()
}

// newExam returns an examination of a store. It reads nothing yet.
func newExam(ctx context.Context, db *notify.Store, o Options, on func(Finding)) (*exam, error) {
	inspector, err := notify.NewInspector(db)
	return &exam{store: db, inspector: inspector, o: o, worst: OK, on: func(f Finding) {
		if ctx.Err() == nil || f.Check == Contents { // else the check was cut short
			on(f)
		}
	}}, err
}

// look makes the checks that only read, and calls tries where those belong that try what this
// user may do: with the number of replicas there are to wait for, and whether this Redis may hold
// messages. It reports whether that is so.
func (e *exam) look(ctx context.Context, tries func(waitReplicas int, fit bool)) (fit bool) {
	if !e.reach(ctx) {
		return false
	}
	e.onEach((*server).version)
	e.onEach(func(s *server) { s.cluster(e.store.InCluster()) })
	e.spread(ctx)
	e.onEach(func(s *server) { s.persistence(ctx) })
	e.onEach((*server).eviction)
	e.onEach(func(s *server) { s.memory(ctx) })
	e.format(ctx)
	waited := e.o.WaitReplicas
	e.onEach(func(s *server) { waited = min(waited, s.replicas(e.o.WaitReplicas)) })
	fit = e.worst < Fail || e.fit(ctx)
	tries(waited, fit)
	e.clock(ctx)
	e.carrier(ctx)
	e.nats(ctx)
	if fit {
		e.service(ctx)
		e.archive(ctx)
	}
	return fit
}

func (s *server) version() {
	version := s.info["redis_version"]
	major, _, _ := strings.Cut(version, ".")
	var n int
	_, err := fmt.Sscan(major, &n)
	switch {
	case s.trial:
		s.report("version", Warn, "the trial server of bellhop dev", "use Redis 7.0 or newer, or Valkey, for messages that matter")
	case err != nil || n < reach.MinRedis:
		s.report("version", Fail, version, fmt.Sprintf("use Redis %d.0 or newer, or Valkey", reach.MinRedis))
	case s.info["valkey_version"] != "":
		s.report("version", OK, "Valkey "+s.info["valkey_version"], "")
	default:
		s.report("version", OK, "Redis "+version, "")
	}
}

const keepRemedy = "run CONFIG SET appendonly yes, and put it into redis.conf"

func (s *server) persistence(ctx context.Context) {
	const check = "persistence"
	if s.trial {
		s.report(check, Warn, "none: messages vanish when the trial server ends", "install redis-server; bellhop dev then uses it")
		return
	}
	// Not every user may read the configuration; without it appendfsync is unknown.
	config, err := s.shard.ServerConfig(ctx)
	known := err == nil
	if s.info["aof_enabled"] != "1" {
		if known && config["save"] == "" {
			s.report(check, Fail, "none: a restart of Redis loses all messages", keepRemedy)
			return
		}
		s.report(check, Warn, "snapshots at most: a crash of Redis loses everything since the last one", keepRemedy)
		return
	}
	switch fsync := config["appendfsync"]; {
	case s.info["aof_last_write_status"] == "err":
		s.report(check, Fail, "append-only file, and the last write to it failed", "see Redis's log; the disk may be full")
	case !known:
		s.report(check, OK, "append-only file; how often it is synced is unknown, since this user may not run CONFIG GET", "")
	case fsync == "no":
		s.report(check, Warn, "append-only file, appendfsync no: a power cut loses what the kernel has not written yet, about half a minute",
			"run CONFIG SET appendfsync everysec (or always, to lose nothing), and put it into redis.conf")
	case fsync == "always":
		s.report(check, OK, "append-only file, appendfsync always: a power cut loses nothing that was acknowledged", "")
	default:
		s.report(check, OK, "append-only file, appendfsync "+fsync+": a power cut loses about a second", "")
	}
}

// format checks that the prefix holds the format of this version. Other errors are
// left to the checks that follow.
func (e *exam) format(ctx context.Context) {
	switch err := e.store.CheckFormat(ctx); {
	case errors.Is(err, notify.ErrUnfit):
		remedy := "export it with the version that wrote it, or leave it there and use another BELLHOP_PREFIX"
		if errors.As(err, new(*reach.OtherShardsError)) {
			remedy = "leave BELLHOP_SHARDS out, or set it to what the store has"
		}
		e.report("format", Fail, err.Error(), remedy)
	case err == nil:
		e.report("format", OK, fmt.Sprintf("%d, or nothing yet", reach.Format), "")
	}
}

func (s *server) eviction() {
	const check, remedy = "eviction", "run CONFIG SET maxmemory-policy noeviction, and put it into redis.conf"
	policy, limit := s.info["maxmemory_policy"], s.info["maxmemory"]
	switch {
	case policy == "":
		s.report(check, OK, "the server has no eviction", "")
	case policy == "noeviction":
		s.report(check, OK, "noeviction, limit "+memory(s.info), "")
	case limit == "0":
		s.report(check, Warn, "maxmemory-policy "+policy+": harmless while memory has no limit", remedy)
	default:
		s.report(check, Fail, "maxmemory-policy "+policy+", limit "+memory(s.info)+": messages may be evicted", remedy)
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

func millis(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000)
}
