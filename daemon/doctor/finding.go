package doctor

import (
	"cmp"
	"fmt"
	"slices"
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
	Name    string  `json:"name,omitempty"`   // the topic, the named listener or the push concerned, if any
	ID      string  `json:"id,omitempty"`     // the message, the schedule or the group of that topic, if one is
	Key     string  `json:"key,omitempty"`    // that a dead letter bars
	Act     Act     `json:"act,omitempty"`    // what mends that at once, as Remedy says; empty: nothing that Bellhop could do by itself

	Repairable bool `json:"repairable,omitempty"` // Repair can apply the remedy

	Lasts bool `json:"-"` // it is about how things are set up, as others of its check are not
}

// An Act is what mends what a finding is about.
type Act string

// The acts.
const (
	Resume  Act = "resume"  // the topic, the push or the schedule
	Requeue Act = "requeue" // the dead letter that bars a key, or those of the topic or the group
	Stop    Act = "stop"    // the work on the message
	Test    Act = "test"    // the endpoint of the push
	Upgrade Act = "upgrade" // the store
)

// Shards is the check of where the shards are, which a store of one shard has not.
const Shards = "shards"

// Format is the check of the format of the store, which warns where an upgrade would add something.
const Format = "format"

// Contents is the check of what Redis holds. Each fault is a finding; the last
// finding sums up.
const Contents = "contents"

// Checks returns the names of all checks in the order in which they run.
func Checks() []string {
	return []string{
		"reachable", "version", "cluster", Shards, "persistence", "eviction", "memory", Format, "replicas", "rights", "pub/sub round trip", "functions", "clock",
		"carrier", "nats", "standby", "overdue", "behind", "paused", "settings", "failing", "dead", "blocked", "groups", "branches", "leases", "listeners", "pushes", "schedules", "archive", outboxCheck, Contents,
	}
}

// stops are the checks whose failure stops most, in the order in which that is mended.
var stops = []string{"reachable", "replicas", "rights", "carrier", "memory", "nats", "archive", outboxCheck}

// setUp are the checks of how Redis and the daemons are set up.
var setUp = []string{"version", "cluster", Shards, "persistence", "eviction", Format, "replicas", "rights", "functions", "standby", "settings"}

// IsOfSetUp reports whether a finding is about how things are set up, which lasts, and not about what happens now.
func (f Finding) IsOfSetUp() bool { return f.Lasts || slices.Contains(setUp, f.Check) }

// First returns the finding to begin with, of all that failed: what it names stops most, and
// others may follow from it. It returns nil if none failed.
func First(all []Finding) *Finding {
	if len(all) == 0 {
		return nil
	}
	if first := slices.MinFunc(all, Compare); first.Verdict == Fail {
		return &first
	}
	return nil
}

// Compare orders findings by how bad they are, and of equally bad ones puts first what stops most.
func Compare(a, b Finding) int {
	return cmp.Or(cmp.Compare(b.Verdict, a.Verdict), cmp.Compare(weight(a), weight(b)))
}

// weight is less for what stops more.
func weight(f Finding) int {
	if i := slices.Index(stops, f.Check); i >= 0 {
		return i
	}
	return len(stops)
}
