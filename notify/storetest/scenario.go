package storetest

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
)

// Play plays a scenario: what happens to messages of one topic, a step a line. Where a reply is another one than its step says, it
// fails the test, and names the file and the line of the step.
//
//	storetest.Play(t, `
//		publish a b ttl=1h
//		publish a if_exists=keep = kept:ready
//		claim 5 = a b                            # up to five: these come, in this order
//		ack a
//		nack b delay=1h
//		is a=none b=scheduled
//		counts scheduled=1 published=2 acked=1
//	`)
//
// A step is a verb, ids, and options NAME=VALUE, in quotes if they have spaces; behind " = " stands the reply, and behind # a remark. A
// step that says no reply must do what it usually does, with all that it names. The table of verbs describes each. The ids 1..4 are 1, 2, 3
// and 4. The option topic names another topic than that of the scenario.
//
// A line "== NAME" begins a case: a test of its own, in a store of its own, that makes the steps before all cases, those of the
// case, and those behind a line "==", if there is one.
func Play(t *testing.T, text string, with ...Scenario) {
	t.Helper()
	_, file, line, _ := runtime.Caller(1)
	of := Scenario{}
	if len(with) > 0 {
		of = with[0]
	}
	before, cases, after := parse(t, file, line, text)
	for _, one := range cases {
		t.Run(one.name, func(t *testing.T) {
			t.Helper()
			t.Parallel()
			NewPlayer(t, of).play(slices.Concat(before, one.steps, after))
		})
	}
	if len(cases) == 0 {
		NewPlayer(t, of).play(before)
	}
}

// A Scenario is what a test adds to steps.
type Scenario struct {
	Open  func(testing.TB) *notify.Store                    // opens the store; nil: Open does
	Topic string                                            // of the messages; empty: orders
	Verbs map[string]func(p *Player, words []string) string // its own verbs, which return their reply: ok, unless the step says another
	After func(p *Player)                                   // is called behind each step
}

// A Player is a scenario that is being played.
type Player struct {
	*testing.T
	Store     *notify.Store
	Shard     store.Shard // that of the topic
	Topic     string
	Publisher *notify.Publisher
	Inspector *notify.Inspector
	scenario  Scenario
	carrier   string                   // the token of an election; empty: there was none
	leases    map[string][]store.Lease // of each message, the latest last
	noted     map[string]notify.Info
	rings     *redis.PubSub
	isPart    bool      // the step says a part of its reply
	began     time.Time // by Redis's clock, of the last step that did something
}

// NewPlayer returns a player of a scenario that has not begun.
func NewPlayer(t *testing.T, of Scenario) *Player {
	t.Helper()
	open := of.Open
	if open == nil {
		open = Open
	}
	p := &Player{T: t, Topic: cmp.Or(of.Topic, "orders"), scenario: of, leases: make(map[string][]store.Lease), noted: make(map[string]notify.Info)}
	p.Use(open(t))
	return p
}

// Use has the steps that follow be played in another store.
func (p *Player) Use(db *notify.Store) {
	p.Helper()
	p.Store, p.Shard, p.Publisher, p.Inspector, p.carrier = db, db.Of(p.Topic), Publisher(p, db), Inspector(p, db), ""
}

// Play plays more steps.
func (p *Player) Play(text string) {
	p.Helper()
	_, file, line, _ := runtime.Caller(1)
	steps, _, _ := parse(p.T, file, line, text)
	p.play(steps)
}

func (p *Player) play(steps []step) {
	p.Helper()
	if slices.ContainsFunc(steps, func(s step) bool { return s.verb == "rung" }) && p.rings == nil {
		p.hearRings()
	}
	for _, s := range steps {
		if fault := p.make(s); fault != "" {
			p.Fatal(fault)
		}
		if p.scenario.After != nil {
			p.scenario.After(p)
		}
	}
}

// make makes a step, and returns what is wrong with its reply.
func (p *Player) make(s step) (fault string) {
	p.Helper()
	verb, known := verbs[s.verb]
	if own := p.scenario.Verbs[s.verb]; own != nil {
		verb = verbOf{"ok", func(p *Player, s step) string { return own(p, s.words) }}
	} else if !known {
		return fmt.Sprintf("%s: %s\n\tthere is no verb %s", s.at, s.text, s.verb)
	}
	want := verb.reply
	if s.says {
		want = s.reply
	}
	if !slices.Contains([]string{"has", "is", "counts", "list"}, s.verb) {
		p.began = p.Now()
	}
	var part string
	part, p.isPart = strings.CutPrefix(want, "~")
	if got := verb.do(p, s); got != want && !(p.isPart && strings.Contains(got, part)) {
		return fmt.Sprintf("%s: %s\n\tgot  %s\n\twant %s", s.at, s.text, got, want)
	}
	return ""
}

// A step is a line of a scenario.
type step struct {
	at, text string // where it stands, and what
	verb     string
	words    []string // but options
	options  [][2]string
	topic    string // empty: that of the scenario
	says     bool   // what is replied
	reply    string
}

// A playCase is the steps of one case.
type playCase struct {
	name  string
	steps []step
}

// parse reads a scenario that stands in a file from a line on.
func parse(t *testing.T, file string, line int, text string) (before []step, cases []playCase, after []step) {
	t.Helper()
	into := &before
	for i, text := range strings.Split(text, "\n") {
		at := fmt.Sprintf("%s:%d", file[strings.LastIndexByte(file, '/')+1:], line+i)
		name, begins := strings.CutPrefix(strings.TrimSpace(text), "==")
		switch name = strings.TrimSpace(name); {
		case begins && name == "":
			into = &after
			continue
		case begins:
			cases = append(cases, playCase{name: name})
			into = &cases[len(cases)-1].steps
			continue
		}
		words := wordsOf(text)
		if len(words) == 0 {
			continue
		}
		s := step{at: at, text: strings.TrimSpace(text), verb: words[0]}
		for j, word := range words[1:] {
			if word == "=" {
				s.says, s.reply = true, strings.Join(words[j+2:], " ")
				break
			}
			s.add(word)
		}
		*into = append(*into, s)
	}
	return before, cases, after
}

// add adds a word, some, or an option.
func (s *step) add(word string) {
	if name, value, is := strings.Cut(word, "="); is && name == "topic" {
		s.topic = value
	} else if is {
		s.options = append(s.options, [2]string{name, value})
	} else if first, last, is := strings.Cut(word, ".."); is {
		from, _ := strconv.Atoi(first)
		to, _ := strconv.Atoi(last)
		for i := from; i <= to; i++ {
			s.words = append(s.words, strconv.Itoa(i))
		}
	} else {
		s.words = append(s.words, word)
	}
}

// wordsOf returns the words of a line, without quotes and remarks.
func wordsOf(line string) (words []string) {
	var word strings.Builder
	quoted, begun := false, false
	end := func() {
		if begun {
			words = append(words, strings.ReplaceAll(word.String(), `\n`, "\n"))
		}
		word.Reset()
		begun = false
	}
	for _, r := range line {
		switch {
		case r == '"':
			quoted, begun = !quoted, true
		case quoted:
			word.WriteRune(r)
		case r == '#' && !begun:
			return words
		case r == ' ' || r == '\t':
			end()
		default:
			begun = true
			word.WriteRune(r)
		}
	}
	end()
	return words
}

// option returns the value of an option; empty if the step has none of that name.
func (s *step) option(name string) string {
	for _, one := range s.options {
		if one[0] == name {
			return one[1]
		}
	}
	return ""
}

// duration returns the value of an option.
func (p *Player) duration(s step, name string, otherwise time.Duration) time.Duration {
	p.Helper()
	text := s.option(name)
	if text == "" {
		return otherwise
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		p.Fatalf("%s: %v", s.at, err)
	}
	return d
}
