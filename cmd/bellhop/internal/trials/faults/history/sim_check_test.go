package history_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/faults/history"
)

const simTime = 500 // ms

var simBounds = history.Bounds{Attempts: simLimit, Ordered: []string{"ordered"}, Late: time.Second, Recovery: 2 * time.Second}

// A system that keeps its promises breaks no rule, whatever faults it meets. After one change
// in its history the expected rule is broken.
func FuzzSimulation(f *testing.F) {
	for seed := range uint64(9) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		s := newSim(seed)
		s.run(simTime)
		final := s.final()
		report, err := history.Check(s.records, final, simBounds)
		if err != nil {
			t.Fatal(err)
		}
		if len(report.Violations) > 0 {
			t.Fatalf("%d violations\n%s", len(report.Violations), list(report.Violations))
		}
		for _, m := range mutations {
			if m.calm && (has(s.records, history.Fault, "power") || has(s.records, history.Fault, "clock")) {
				continue
			}
			records, final := m.change(rand.New(rand.NewPCG(seed, 1)), slices.Clone(s.records), final)
			if records == nil {
				continue // it does not apply to this history
			}
			report, err := history.Check(records, final, simBounds)
			if err != nil {
				t.Fatalf("%s: %v", m.name, err)
			}
			if !slices.ContainsFunc(report.Violations, func(v history.Violation) bool { return v.Rule == m.rule }) {
				t.Errorf("%s: broken: %q, want %q among them\n%s", m.name, rules(report.Violations), m.rule, list(report.Violations))
			}
		}
	})
}

// Each mutation applies to one of the simulations at least.
func TestMutationsApply(t *testing.T) {
	found := make(map[string]bool)
	for seed := range uint64(6) {
		s := newSim(seed)
		s.run(simTime)
		for _, m := range mutations {
			records, _ := m.change(rand.New(rand.NewPCG(seed, 1)), slices.Clone(s.records), s.final())
			calm := !has(s.records, history.Fault, "power") && !has(s.records, history.Fault, "clock")
			if records != nil && (calm || !m.calm) {
				found[m.name] = true
			}
		}
	}
	for _, m := range mutations {
		if !found[m.name] {
			t.Errorf("%s never applied", m.name)
		}
	}
}

// A mutation changes one thing in a right history. It returns nil if it does not apply.
type mutation struct {
	name   string
	rule   history.Rule
	calm   bool // applies only to histories without faults, which might excuse it
	change func(*rand.Rand, []history.Record, history.Final) ([]history.Record, history.Final)
}

var mutations = []mutation{
	{"drop a message that waits", history.Lost, true, func(rnd *rand.Rand, rs []history.Record, f history.Final) ([]history.Record, history.Final) {
		i := pick(rnd, rs, func(r history.Record) bool {
			return r.Op == history.Publish && r.Phase == history.OK && count(rs, r.ID) == 2
		})
		if i < 0 {
			return nil, f
		}
		return rs, empty()
	}},
	{"drop what was done with a message", history.Lost, true, func(rnd *rand.Rand, rs []history.Record, f history.Final) ([]history.Record, history.Final) {
		i := pick(rnd, rs, func(r history.Record) bool {
			return r.Op == history.Publish && r.Phase == history.OK && !slices.Contains(f.Records, r.Topic+":"+r.ID)
		})
		if i < 0 {
			return nil, f
		}
		id := rs[i].ID
		return slices.DeleteFunc(rs, func(r history.Record) bool { return r.ID == id && r.Op != history.Publish }), f
	}},
	{"lose a broadcast", history.Lost, true, func(rnd *rand.Rand, rs []history.Record, f history.Final) ([]history.Record, history.Final) {
		i := pick(rnd, rs, func(r history.Record) bool {
			return r.Op == history.Broadcast && r.Phase == history.OK && !has(rs, history.Cancel, r.ID) && has(rs, history.Receive, r.ID)
		})
		if i < 0 {
			return nil, f
		}
		id := rs[i].ID
		f.Logs = slices.DeleteFunc(slices.Clone(f.Logs), func(e history.Entry) bool { return e.ID == id })
		return slices.DeleteFunc(rs, func(r history.Record) bool { return r.ID == id && r.Op == history.Receive }), f
	}},
	{"refuse what was handed out", history.Unpublished, false, func(rnd *rand.Rand, rs []history.Record, f history.Final) ([]history.Record, history.Final) {
		i := pick(rnd, rs, func(r history.Record) bool {
			return r.Op == history.Publish && r.Phase == history.OK && (has(rs, history.Take, r.ID) || has(rs, history.Handle, r.ID))
		})
		if i < 0 {
			return nil, f
		}
		rs[i].Phase = history.No
		return rs, f
	}},
	{"hand out early", history.Early, false, func(rnd *rand.Rand, rs []history.Record, f history.Final) ([]history.Record, history.Final) {
		i := pick(rnd, rs, isHandout)
		if i < 0 {
			return nil, f
		}
		rs[i].Receipt = 1000 * (rs[i].Due + rs[i].Lease - 1)
		return rs, f
	}},
	{"hand out what was cancelled", history.Cancelled, true, func(rnd *rand.Rand, rs []history.Record, f history.Final) ([]history.Record, history.Final) {
		i := pick(rnd, rs, func(r history.Record) bool {
			return r.Op == history.Cancel && r.Phase == history.OK && r.Topic == "claimed"
		})
		if i < 0 {
			return nil, f
		}
		return handOut(rs, rs[i], rs[i].At+20_000), f
	}},
	{"hand out what was acknowledged", history.Again, true, func(rnd *rand.Rand, rs []history.Record, f history.Final) ([]history.Record, history.Final) {
		i := pick(rnd, rs, func(r history.Record) bool { return r.Op == history.Ack && r.Phase == history.OK })
		if i < 0 {
			return nil, f
		}
		return handOut(rs, rs[i], rs[i].At+20_000), f
	}},
	{"hand out what is leased", history.Double, true, func(rnd *rand.Rand, rs []history.Record, f history.Final) ([]history.Record, history.Final) {
		i := pick(rnd, rs, func(r history.Record) bool { return r.Op == history.Take && settles(rs, r.ID) == 0 })
		if i < 0 {
			return nil, f
		}
		return handOut(rs, rs[i], rs[i].At+5_000), f
	}},
	{"settle what another one has", history.Receipts, true, func(rnd *rand.Rand, rs []history.Record, f history.Final) ([]history.Record, history.Final) {
		i := pick(rnd, rs, func(r history.Record) bool {
			return r.Op == history.Ack && r.Phase == history.OK && settles(rs, r.ID) == 1
		})
		if i < 0 {
			return nil, f
		}
		call := slices.IndexFunc(rs, func(r history.Record) bool { return r.Process == rs[i].Process && r.N == rs[i].N })
		return handOut(rs, rs[i], rs[call].At-500), f
	}},
	{"count an attempt twice", history.Attempts, true, func(rnd *rand.Rand, rs []history.Record, f history.Final) ([]history.Record, history.Final) {
		if slices.ContainsFunc(rs, func(r history.Record) bool { return r.Op == history.Claim && r.Phase == history.Unknown }) {
			return nil, f // there may have been an unrecorded attempt
		}
		i := pick(rnd, rs, func(r history.Record) bool { return r.Op == history.Take })
		if i < 0 {
			return nil, f
		}
		rs[i].Attempt++
		return rs, f
	}},
	{"use up too many attempts", history.Attempts, false, func(rnd *rand.Rand, rs []history.Record, f history.Final) ([]history.Record, history.Final) {
		i := pick(rnd, rs, isHandout)
		if i < 0 {
			return nil, f
		}
		rs[i].Attempt = simLimit + 1
		return rs, f
	}},
	{"accept a made-up receipt", history.Receipts, true, func(rnd *rand.Rand, rs []history.Record, f history.Final) ([]history.Record, history.Final) {
		i := pick(rnd, rs, func(r history.Record) bool { return r.Op == history.Nack && r.Phase == history.OK })
		if i < 0 {
			return nil, f
		}
		for j := range rs {
			if rs[j].Process == rs[i].Process && rs[j].N == rs[i].N {
				rs[j].Receipt += 12345
			}
		}
		return rs, f
	}},
	{"have a message overtaken", history.Order, true, func(rnd *rand.Rand, rs []history.Record, f history.Final) ([]history.Record, history.Final) {
		i, next := twoHandled(rs)
		if i < 0 {
			return nil, f
		}
		rs[i].ID, rs[next].ID = rs[next].ID, rs[i].ID
		rs[i].Due, rs[next].Due = rs[next].Due, rs[i].Due
		return rs, f
	}},
	{"accept a receipt that was given back", history.Receipts, true, func(rnd *rand.Rand, rs []history.Record, f history.Final) ([]history.Record, history.Final) {
		i := pick(rnd, rs, func(r history.Record) bool { return r.Op == history.Nack && r.Phase == history.OK })
		if i < 0 {
			return nil, f
		}
		ack := rs[slices.IndexFunc(rs, func(r history.Record) bool { return r.Process == rs[i].Process && r.N == rs[i].N })]
		ack.At, ack.Process, ack.N, ack.Op = rs[i].At+1, "x", 1, history.Ack
		end := ack
		end.At, end.Phase = ack.At+1, history.OK
		return slices.Insert(rs, i+1, ack, end), f
	}},
	{"swap two broadcasts", history.Order, false, func(rnd *rand.Rand, rs []history.Record, f history.Final) ([]history.Record, history.Final) {
		i, next := twoReceived(rnd, rs)
		if i < 0 {
			return nil, f
		}
		rs[i].ID, rs[next].ID = rs[next].ID, rs[i].ID
		rs[i].Position, rs[next].Position = rs[next].Position, rs[i].Position
		return rs, f
	}},
	{"receive a broadcast twice", history.Twice, false, func(rnd *rand.Rand, rs []history.Record, f history.Final) ([]history.Record, history.Final) {
		i, next := twoReceived(rnd, rs)
		if i < 0 {
			return nil, f
		}
		rs[next].ID, rs[next].Position = rs[i].ID, rs[i].Position
		return rs, f
	}},
	{"miss a broadcast", history.Missed, true, func(rnd *rand.Rand, rs []history.Record, f history.Final) ([]history.Record, history.Final) {
		i, _ := twoReceived(rnd, rs)
		if i < 0 {
			return nil, f
		}
		return slices.DeleteFunc(rs, func(r history.Record) bool { return r.Process == rs[i].Process && r.N == rs[i].N }), f
	}},
	{"miss a broadcast under a name", history.Missed, true, func(rnd *rand.Rand, rs []history.Record, f history.Final) ([]history.Record, history.Final) {
		i := pick(rnd, rs, func(r history.Record) bool { return r.Op == history.Receive && r.Name != "" })
		if i < 0 {
			return nil, f
		}
		id := rs[i].ID
		return slices.DeleteFunc(rs, func(r history.Record) bool { return r.ID == id && r.Op == history.Receive && r.Name != "" }), f
	}},
	{"tell of a gap that is none", history.FalseGap, true, func(rnd *rand.Rand, rs []history.Record, f history.Final) ([]history.Record, history.Final) {
		i, _ := twoReceived(rnd, rs)
		if i < 0 {
			return nil, f
		}
		gap := rs[i]
		gap.Op, gap.Phase, gap.N, gap.ID, gap.Was = history.Gap, history.Event, 0, "", gap.Position-1
		return slices.Insert(rs, i, gap), f
	}},
	{"leave a record behind", history.Orphan, false, func(_ *rand.Rand, rs []history.Record, f history.Final) ([]history.Record, history.Final) {
		f.Records = append(slices.Clone(f.Records), "claimed:m0")
		return rs, f
	}},
}

// pick returns the index of a random matching record, or -1.
func pick(rnd *rand.Rand, rs []history.Record, of func(history.Record) bool) int {
	var all []int
	for i, r := range rs {
		if of(r) {
			all = append(all, i)
		}
	}
	if len(all) == 0 {
		return -1
	}
	return all[rnd.IntN(len(all))]
}

func isHandout(r history.Record) bool {
	return r.Op == history.Take || r.Op == history.Handle && r.Phase == history.Call
}

// has reports whether a record is about an id, or a fault is of a kind.
func has(rs []history.Record, op history.Op, name string) bool {
	return slices.ContainsFunc(rs, func(r history.Record) bool {
		return r.Op == op && (r.ID == name || op == history.Fault && r.Kind == name)
	})
}

func count(rs []history.Record, id string) (n int) {
	for _, r := range rs {
		if r.ID == id {
			n++
		}
	}
	return n
}

// settles counts the calls that settle a message.
func settles(rs []history.Record, id string) (n int) {
	for _, r := range rs {
		switch r.Op {
		case history.Ack, history.Nack, history.Bury, history.Release, history.Extend:
			if r.ID == id && r.Phase == history.Call {
				n++
			}
		}
	}
	return n
}

// handOut adds a claim by another process that takes a message.
func handOut(rs []history.Record, r history.Record, at int64) []history.Record {
	take := history.Record{
		At: at, Process: "x", N: 1, Op: history.Take, Topic: r.Topic, ID: r.ID, Attempt: 1,
		Lease: simLease, Receipt: at + 1000*simLease, Due: at/1000 - 1,
	}
	call := history.Record{At: at - 1, Process: "x", N: 1, Op: history.Claim, Phase: history.Call, Topic: r.Topic}
	end := call
	end.At, end.Phase = at+1, history.OK
	i := slices.IndexFunc(rs, func(r history.Record) bool { return r.At > at })
	return slices.SortedStableFunc(slices.Values(slices.Insert(rs, i, call, take, end)), func(a, b history.Record) int { return cmp.Compare(a.At, b.At) })
}

// twoReceived returns the indexes of two broadcasts that a listener without a name received one right after the other.
func twoReceived(rnd *rand.Rand, rs []history.Record) (first, second int) {
	of := func(r history.Record) bool {
		return r.Op == history.Receive && r.Name == "" && r.Phase == history.Call && strings.HasPrefix(r.Process, "l")
	}
	first = pick(rnd, rs, of)
	if first < 0 {
		return -1, -1
	}
	for i, r := range rs[first+1:] {
		if of(r) && r.Process == rs[first].Process {
			return first, first + 1 + i
		}
	}
	return -1, -1
}

// twoHandled returns the indexes of two messages that one worker handled in turn, of which the
// second was published after the first.
func twoHandled(rs []history.Record) (first, second int) {
	published := make(map[string]history.Record) // id → end of its publish
	handled := make(map[string]int)
	for _, r := range rs {
		if r.Op == history.Handle && r.Phase == history.Call {
			handled[r.ID]++
		}
		if r.Op == history.Publish && r.Phase == history.OK && !has(rs, history.Reschedule, r.ID) && !has(rs, history.Requeue, r.ID) {
			published[r.ID] = r
		}
	}
	var before []int
	for i, r := range rs {
		p, plain := published[r.ID]
		if r.Op != history.Handle || r.Phase != history.Call || r.Topic != "ordered" || r.Attempt != 1 || !plain || handled[r.ID] > 1 {
			continue
		}
		for _, j := range before {
			q := published[rs[j].ID]
			if q.At < p.At-5_000 && q.Due < p.Due && p.At < rs[j].At {
				return j, i
			}
		}
		before = append(before, i)
	}
	return -1, -1
}

// BenchmarkCheck checks a million records, in about a second and a half.
func BenchmarkCheck(b *testing.B) {
	records := large(160_000)
	b.ResetTimer()
	for b.Loop() {
		report, err := history.Check(records, empty(), bounds)
		if err != nil || len(report.Violations) > 0 {
			b.Fatal(err, list(report.Violations))
		}
	}
	b.ReportMetric(float64(len(records)), "records/op")
}

// large returns a history of n messages that are published, claimed and acknowledged.
func large(n int64) (records []history.Record) {
	add := func(at int64, phase history.Phase, r history.Record) {
		r.At, r.Phase = at, phase
		records = append(records, r)
	}
	for i := range n {
		at := start*1000 + 100*i
		id, due := fmt.Sprint("m", i), at/1000+1
		publish := history.Record{Process: "p", N: i + 1, Op: history.Publish, Topic: "t", ID: id}
		add(at, history.Call, publish)
		publish.Due = due
		add(at+1, history.OK, publish)
		claim := history.Record{Process: "w", N: 2*i + 1, Op: history.Claim, Topic: "t"}
		add(at+2000, history.Call, claim)
		take := claim
		take.Op, take.ID, take.Due, take.Attempt, take.Receipt, take.Lease = history.Take, id, due, 1, at+1002_000, 1000
		add(at+2001, history.Event, take)
		add(at+2002, history.OK, claim)
		ack := history.Record{Process: "w", N: 2*i + 2, Op: history.Ack, Topic: "t", ID: id, Receipt: take.Receipt}
		add(at+2003, history.Call, ack)
		add(at+2004, history.OK, ack)
	}
	slices.SortStableFunc(records, func(a, b history.Record) int { return cmp.Compare(a.At, b.At) })
	return records
}
