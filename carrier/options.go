package carrier

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// Defaults and limits of Options.
const (
	DefaultLease     = 3 * time.Second
	MinLease         = 500 * time.Millisecond
	MaxLease         = store.MaxCarrierLease
	DefaultBatch     = 500
	MaxBatch         = 1000
	DefaultKeepCount = 100_000
	MaxKeepCount     = 10_000_000
	DefaultKeepAge   = 24 * time.Hour
	MinKeepAge       = time.Second
	MaxKeepAge       = 10 * 366 * 24 * time.Hour

	DefaultKeepDeadCount = 100_000
	DefaultKeepDeadAge   = 90 * 24 * time.Hour
	DefaultKeepDoneCount = 100_000
	DefaultKeepDoneAge   = 30 * 24 * time.Hour
	DefaultKeepTopics    = 30 * 24 * time.Hour
	DefaultSweep         = time.Minute
	MinSweep             = time.Millisecond
	MaxSweep             = time.Hour
)

// Options are the options of a Carrier. The zero value is the default.
type Options struct {
	Name      string        // name of the carrier, for people, and for handing shards over: best its own; empty: HOST:PID
	Lease     time.Duration // of the election: how long nothing is carried after a carrier was killed; zero: DefaultLease
	Batch     int           // most messages moved in one call, or two if it is one, but for what a topic has for one time alone, and hand-overs; zero: DefaultBatch
	KeepCount int           // broadcasts that the log of a topic keeps, or some more; if fewer than Batch, some may be trimmed before any listener reads them; zero: DefaultKeepCount
	KeepAge   time.Duration // how long a log keeps them, or some longer; zero: DefaultKeepAge
	Logger    *slog.Logger  // nil: slog.Default(); to log nothing: slog.New(slog.DiscardHandler)

	// The housekeeping. It removes what is beyond these limits later, in small steps.
	KeepDeadCount int           // dead letters that a topic keeps; zero: DefaultKeepDeadCount
	KeepDeadAge   time.Duration // how long a topic keeps them; zero: DefaultKeepDeadAge
	KeepDoneCount int           // messages that succeeded that a topic keeps (AckWith); zero: DefaultKeepDoneCount
	KeepDoneAge   time.Duration // how long it keeps one at the longest, of those acknowledged from then on; zero: DefaultKeepDoneAge
	KeepTopics    time.Duration // how long an empty topic's counters are kept, at least KeepAge; zero: DefaultKeepTopics
	Sweep         time.Duration // between two steps that find nothing to do; zero: DefaultSweep

	Still     bool // Redis's clock stands still, and who sets it nudges the carrier; that it is off this host's is not logged
	NoHistory bool // keep no history of what was published, claimed and acknowledged, and how late; remove what others kept

	// OnTerm is called in its own goroutine when this carrier is elected for a shard. Its
	// context ends with the term. The carrier does not wait for it to return: meanwhile it
	// gives up its lease, stands for election again and may carry. The next call for the
	// shard comes when the one before has returned; those for other shards run beside it.
	// Run returns when all have returned.
	OnTerm func(ctx context.Context, t Term)

	// OnCarried is called after each call that moved something, in the carrier's loop for
	// the shard: it must not block, and is called for several shards at a time.
	OnCarried func(Carried)
}

// A Term lasts from an election until the carrier loses its lease of a shard or gives it up.
type Term struct {
	Name  string          // Options.Name
	Epoch int64           // number of the election
	Since time.Time       // of that, by Redis's clock
	Sent  record.Position // of the last broadcast before it; zero: none
	Shard store.Shard
}

// Carried is what one call moved.
type Carried struct {
	Shard    int           // number of the shard
	Moved    int           // messages made ready, including those whose lease ended, and broadcasts sent
	Lateness []Lateness    // of the scheduled messages among them, earliest due first
	Took     time.Duration // how long the call took Redis

	// Fallback says that only the heartbeat found something that was more than 50 ms
	// late: its nudge was lost. That is certain once the beat is received, so such a
	// call is reported somewhat later.
	Fallback bool
}

// Lateness is the lateness of messages that were due at one time.
type Lateness struct {
	Late time.Duration // from the due time until they were ready, in us
	N    int           // number of messages
}

// byDefault sets the defaults of what is zero.
func (o *Options) byDefault() {
	if o.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown"
		}
		o.Name = fmt.Sprintf("%s:%d", host, os.Getpid())
	}
	o.Lease = cmp.Or(o.Lease, DefaultLease)
	o.Batch = cmp.Or(o.Batch, DefaultBatch)
	o.KeepCount = cmp.Or(o.KeepCount, DefaultKeepCount)
	o.KeepAge = cmp.Or(o.KeepAge, DefaultKeepAge)
	o.KeepDeadCount = cmp.Or(o.KeepDeadCount, DefaultKeepDeadCount)
	o.KeepDeadAge = cmp.Or(o.KeepDeadAge, DefaultKeepDeadAge)
	o.KeepDoneCount = cmp.Or(o.KeepDoneCount, DefaultKeepDoneCount)
	o.KeepDoneAge = cmp.Or(o.KeepDoneAge, DefaultKeepDoneAge)
	o.KeepTopics = cmp.Or(o.KeepTopics, DefaultKeepTopics)
	o.Sweep = cmp.Or(o.Sweep, DefaultSweep)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
}

// Check returns a joined notify.Fault for each option that is out of range. Unlike
// New it does not replace zeros by defaults: they are out of range.
func (o Options) Check() error {
	return errors.Join(
		checkName(o.Name),
		fault.Within("lease", "carrier lease", o.Lease, MinLease, MaxLease),
		fault.Within("batch", "carrier batch", o.Batch, 1, MaxBatch),
		fault.Within("keep_count", "count of broadcasts to keep", o.KeepCount, 1, MaxKeepCount),
		fault.Within("keep_age", "age of broadcasts to keep", o.KeepAge, MinKeepAge, MaxKeepAge),
		fault.Within("keep_dead_count", "count of dead letters to keep", o.KeepDeadCount, 1, MaxKeepCount),
		fault.Within("keep_dead_age", "age of dead letters to keep", o.KeepDeadAge, MinKeepAge, MaxKeepAge),
		fault.Within("keep_done_count", "count of messages that succeeded to keep", o.KeepDoneCount, 1, MaxKeepCount),
		fault.Within("keep_done_age", "age of messages that succeeded to keep", o.KeepDoneAge, MinKeepAge, MaxKeepAge),
		fault.Within("keep_topics", "time to remember topics", o.KeepTopics, MinKeepAge, MaxKeepAge),
		fault.Within("sweep", "pause of the housekeeping", o.Sweep, MinSweep, MaxSweep),
	)
}

func checkName(name string) error {
	if strings.ContainsFunc(name, func(r rune) bool { return r < '!' || r > '~' }) {
		return fault.New("name", "carrier name %q: use printable ASCII without spaces", name)
	}
	return nil
}
