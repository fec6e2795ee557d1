package history_test

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/faults/history"
)

// start is the beginning of scripts by all clocks, in ms.
const start = 1_700_000_000_000

// A script is a history in lines, with times in ms from its start:
//
//	FROM-TO PROCESS OP [ID] PHASE [FIELD=VALUE …]   an operation; TO may be ? for one without an end
//	AT PROCESS OP [ID] [FIELD=VALUE …]              an event
//	FROM-TO PROCESS takes ID [FIELD=VALUE …]        a claim that takes a message; at= is its time by Redis's clock
//	FROM-TO fault KIND [FIELD=VALUE …] [took=N]     a fault, which takes so long to be made, and its heal
//	final PLACE ID [AT] [VERSION]                   where a message is at the end; ID may be TOPIC/ID
//	final dropped N                                 how many messages are counted as dropped
//	final done ID RESULT                            a message that is kept
//
// The topic is t unless topic= says otherwise; the lease is 1000.
type script struct {
	t       *testing.T
	records []history.Record
	last    map[string]int64
	final   history.Final
}

func read(t *testing.T, text string) *script {
	t.Helper()
	s := &script{t: t, last: make(map[string]int64), final: empty()}
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 0 {
			s.line(words)
		}
	}
	slices.SortStableFunc(s.records, func(a, b history.Record) int { return cmp.Compare(a.At, b.At) })
	return s
}

func empty() history.Final {
	return history.Final{
		Heads: map[string]int64{}, ReadySet: map[string]int64{}, Scheduled: map[string]map[string]int64{}, Ready: map[string]map[string]int64{}, Blocked: map[string]map[string]int64{},
		Leased: map[string]int64{}, Dead: map[string]map[string]int64{}, Broadcasts: map[string]int64{},
		Attempts: map[string]int64{}, Expiries: map[string]int64{}, Leases: map[string]int64{}, Waiting: map[string]int64{},
		Trimmed: map[string]int64{}, Versions: map[string]string{}, Next: map[string]string{}, Done: map[string]string{},
	}
}

func (s *script) line(words []string) {
	if words[0] == "final" && words[1] == "dropped" {
		s.final.Dropped = map[string]int64{"t": s.number(words[2])}
		return
	}
	if words[0] == "final" && words[1] == "done" {
		s.final.Done["t:"+words[2]] = words[3]
		return
	}
	if words[0] == "final" {
		at := int64(0)
		if len(words) > 3 {
			at = s.number(words[3])
		}
		if len(words) > 4 {
			s.final.Versions["t:"+words[2]] = words[4]
		}
		s.place(words[1], words[2], start+at)
		return
	}
	from, to, ranged := strings.Cut(words[0], "-")
	at := s.ms(from)
	if words[1] == "fault" {
		s.fault(at, to, words[2], words[3:])
		return
	}
	r := history.Record{Process: words[1], Op: history.Op(words[2])}
	rest := words[3:]
	if len(rest) > 0 && !strings.Contains(rest[0], "=") && !isPhase(rest[0]) {
		r.Topic, r.ID, rest = "t", rest[0], rest[1:]
	}
	switch {
	case r.Op == "takes":
		s.takes(r, at, s.ms(to), rest)
	case ranged:
		s.operation(r, at, to, rest)
	default:
		s.fields(&r, rest)
		s.add(at, r)
	}
}

func isPhase(word string) bool { return word == "ok" || word == "no" || word == "unknown" }

// operation adds a call and its end.
func (s *script) operation(r history.Record, from int64, to string, rest []string) {
	phase := history.Unknown
	if len(rest) > 0 && isPhase(rest[0]) {
		phase, rest = history.Phase(rest[0]), rest[1:]
	}
	s.fields(&r, rest)
	if r.Op == history.Claim && r.Topic == "" {
		r.Topic = "t"
	}
	s.last[r.Process]++
	r.N, r.Phase = s.last[r.Process], history.Call
	s.add(from, r)
	if to == "?" {
		return
	}
	r.Phase = phase
	s.add(s.ms(to), r)
}

// takes adds a claim and the message that it takes.
func (s *script) takes(r history.Record, from, to int64, rest []string) {
	take := r
	take.Op, take.Attempt, take.Lease = history.Take, 1, 1000
	at := from
	if strings.HasPrefix(rest[0], "at=") {
		at, rest = s.ms(strings.TrimPrefix(rest[0], "at=")), rest[1:]
	}
	s.fields(&take, rest)
	if take.Now {
		take.Lease = 0
	}
	if take.Receipt == 0 {
		take.Receipt = at/1000*1000 + 1000*take.Lease
	}
	s.last[r.Process]++
	take.N = s.last[r.Process]
	claim := history.Record{Process: r.Process, Op: history.Claim, Phase: history.Call, Topic: take.Topic, N: take.N, Now: take.Now, Topics: take.Topics}
	s.add(from, claim)
	s.add(to, take)
	claim.Phase = history.OK
	s.add(to, claim)
}

func (s *script) fault(from int64, to, kind string, rest []string) {
	s.last["harness"]++
	r := history.Record{Process: "harness", Op: history.Fault, N: s.last["harness"], Kind: kind, Phase: history.Call}
	made := from
	if n := len(rest); n > 0 {
		if took, is := strings.CutPrefix(rest[n-1], "took="); is {
			made, rest = from+s.number(took)*1000, rest[:n-1]
		}
	}
	s.fields(&r, rest)
	s.add(from, r)
	r.Phase = history.OK
	s.add(made, r)
	if to == "?" {
		return
	}
	r = history.Record{Process: "harness", Op: history.Heal, N: r.N, Kind: kind, Phase: history.Call}
	s.add(s.ms(to), r)
	r.Phase = history.OK
	s.add(s.ms(to), r)
}

func (s *script) add(at int64, r history.Record) {
	r.At = at
	s.records = append(s.records, r)
}

// fields sets fields of a record. Times are counted from the start.
func (s *script) fields(r *history.Record, words []string) {
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "due":
			r.Due = start + s.number(value)
		case "receipt":
			r.Receipt = 1000 * (start + s.number(value))
		case "was":
			r.Was = 1000 * (start + s.number(value))
		case "after":
			r.Was = s.ms(value)
		case "position":
			r.Position = s.ms(value)
		case "ttl":
			r.TTL = s.number(value)
		case "key":
			r.Key = value
		case "busy":
			r.Busy = value == "true"
		case "limit":
			r.Limit = int(s.number(value))
		case "webhook":
			r.Webhook = value
		case "forged":
			r.Forged = value == "true"
		case "stop":
			r.Stop = value == "true"
		case "hands":
			r.Hands = int(s.number(value))
		case "handed":
			r.Handed = value == "true"
		case "attempt":
			r.Attempt = int(s.number(value))
		case "lease":
			r.Lease = s.number(value)
		case "offset":
			r.Offset = s.number(value)
		case "loss":
			r.Loss = s.number(value)
		case "waited":
			r.Waited = value == "true"
		case "halfway":
			r.Halfway = value == "true"
		case "epoch":
			r.Epoch = s.number(value)
		case "shard":
			r.Shard = int(s.number(value))
		case "shards":
			r.Shards = value
		case "epochs":
			r.Epochs = value
		case "bookmark":
			r.Bookmark = s.bookmark(value)
		case "count":
			r.Count = int(s.number(value))
		case "topic":
			r.Topic = value
		case "state":
			r.State = value
		case "listener":
			r.Listener = value
		case "name":
			r.Name = value
		case "pattern":
			r.Pattern = value
		case "target":
			r.Target = value
		case "version":
			r.Version = value
		case "mode":
			r.Mode = value
		case "then":
			r.After = value == "after"
		case "max_wait":
			r.MaxWait = s.number(value)
		case "unique":
			r.Unique = s.number(value)
		case "previous":
			r.Previous = start + s.number(value)
		case "outcome":
			r.Outcome = value
		case "fail":
			r.Fail = value
		case "late_after":
			r.LateAfter = s.number(value)
		case "late":
			r.LateMode = value
		case "try":
			r.Try = s.number(value)
		case "now":
			r.Now = value == "true"
		case "topics":
			r.Topics = value
		case "keep":
			r.Keep = s.number(value)
		case "result":
			r.Result = value
		case "forgotten":
			r.Forgotten = value == "true"
		case "group":
			r.Group = value
		case "after_group":
			r.AfterGroup = value
		case "go":
			r.Go = value == "true"
		case "wait":
			r.Wait = s.number(value)
		default:
			s.t.Fatalf("no field %q", name)
		}
	}
}

func (s *script) number(text string) int64 {
	s.t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// bookmark returns the bookmark of positions, one of each shard.
func (s *script) bookmark(text string) string {
	var all []int64
	for one := range strings.SplitSeq(text, ",") {
		all = append(all, s.ms(one))
	}
	greatest := slices.Max(all)
	data := binary.AppendUvarint(nil, uint64(greatest))
	for _, at := range all {
		data = binary.AppendUvarint(data, uint64(greatest-at))
	}
	return fmt.Sprintf("%d.%s", len(all), base64.RawURLEncoding.EncodeToString(data))
}

// ms returns a time in µs from one in ms.
func (s *script) ms(text string) int64 { return (start + s.number(text)) * 1000 }

// place puts a message into its final place, with all that belongs to it.
func (s *script) place(where, id string, at int64) {
	topic, f := "t", &s.final
	if before, behind, named := strings.Cut(id, "/"); named {
		topic, id = before, behind
	}
	member := topic + ":" + id
	set := func(topics map[string]map[string]int64) {
		if topics[topic] == nil {
			topics[topic] = make(map[string]int64)
		}
		topics[topic][member] = at
	}
	switch where {
	case "scheduled":
		set(f.Scheduled)
		f.Heads[topic] = at
		for _, due := range f.Scheduled[topic] {
			f.Heads[topic] = min(f.Heads[topic], due)
		}
	case "ready":
		set(f.Ready)
		f.ReadySet = map[string]int64{topic: at}
		for _, due := range f.Ready[topic] {
			f.ReadySet[topic] = min(f.ReadySet[topic], due)
		}
	case "blocked":
		set(f.Blocked)
	case "dead":
		set(f.Dead)
		f.Deaths = append(f.Deaths, member)
	case "leased":
		f.Leased[member] = at
		f.Leases[topic]++
	case "broadcasts":
		f.Broadcasts[member] = at
		f.Waiting[topic]++
	case "attempts":
		f.Attempts[member] = 1
		return
	case "next":
		f.Next[member] = s.final.Versions[member]
		delete(s.final.Versions, member)
		return
	case "log":
		f.Logs = append(f.Logs, history.Entry{Topic: topic, ID: id, Position: at * 1000})
		return
	default:
		s.t.Fatalf("no place %q", where)
	}
	f.Records = append(f.Records, member)
}

// rules returns the broken rules, each once.
func rules(vs []history.Violation) string {
	var names []string
	for _, v := range vs {
		names = append(names, string(v.Rule))
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}

// expect fails the test unless exactly the given rule is broken, or none if rule is empty.
func expect(t *testing.T, records []history.Record, final history.Final, bounds history.Bounds, rule history.Rule) {
	t.Helper()
	report, err := history.Check(records, final, bounds)
	if err != nil {
		t.Fatal(err)
	}
	if got := rules(report.Violations); got != string(rule) {
		t.Errorf("broken: %q, want %q\n%s", got, rule, list(report.Violations))
	}
}

func list(vs []history.Violation) string {
	var b strings.Builder
	for i, v := range vs {
		if i == 10 {
			fmt.Fprintf(&b, "and %d more\n", len(vs)-i)
			break
		}
		fmt.Fprintln(&b, v)
	}
	return b.String()
}
