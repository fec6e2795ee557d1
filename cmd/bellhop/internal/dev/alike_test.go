package dev_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/carrier/belltest"
	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fields"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// jobs is the topic of all histories.
const jobs = "jobs"

// A player plays a history in a world: in a bubble, by a manual clock, or on a redis-server in real time.
type player struct {
	*testing.T
	history
	world
	store *notify.Store
	pub   *notify.Publisher
	look  *notify.Inspector
	claim *subscribers.Claimer

	began   time.Time     // by Redis's clock
	planned time.Duration // how far the history is
	held    map[string]subscribers.Delivery
	leave   map[string]func() // of listeners
	awaited sync.WaitGroup

	by   []int       // how much had happened by the end of each advance
	left []happening // at the end

	mu   sync.Mutex
	seen []happening
}

// A world is how time passes, and a worker runs.
type world struct {
	reach func(p *player, goal time.Duration)
	work  func(p *player, answers answers)
}

// A happening is what happened, and when.
type happening struct {
	At   time.Duration
	What string
}

// happenings reads lines that begin with a duration.
func happenings(t *testing.T, text string) (all []happening) {
	t.Helper()
	if text == "" {
		return nil
	}
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		at, what, _ := strings.Cut(strings.TrimSpace(line), " ")
		d, err := time.ParseDuration(at)
		storetest.Must(t, err)
		all = append(all, happening{d, what})
	}
	return all
}

// play plays the history, and returns what happened, and what is left then.
func (h history) play(t *testing.T, db *notify.Store, w world) *player {
	t.Helper()
	p := &player{
		T: t, history: h, world: w, store: db, held: make(map[string]subscribers.Delivery), leave: make(map[string]func()),
		pub: storetest.Publisher(t, db), look: storetest.Inspector(t, db), claim: subscriberstest.Claimer(t, db),
	}
	storetest.Run(t, p.claim.Run)
	p.began = p.now()
	for line := range strings.SplitSeq(strings.TrimSpace(h.steps), "\n") {
		s := stepOf(p, strings.Fields(line))
		verb, is := verbs[s.verb]
		if !is {
			t.Fatalf("%s: there is no such step", line)
		}
		verb(p, s)
	}
	p.left = p.whatIsLeft()
	return p
}

// now returns the time by Redis's clock.
func (p *player) now() time.Time {
	p.Helper()
	now, err := p.store.Client().Time(context.WithoutCancel(p.Context())).Result()
	storetest.Should(p, err)
	return now.UTC()
}

// note notes that something happens now.
func (p *player) note(what ...any) {
	at := p.now().Sub(p.began)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, happening{at, strings.TrimSpace(fmt.Sprintln(what...))})
}

// catchUp waits until as much has happened as in a bubble by then.
func (p *player) catchUp(inBubble *player) {
	p.Helper()
	n := inBubble.by[len(p.by)]
	storetest.Eventually(p, fmt.Sprintf("%d things have happened by %v", n, p.planned), func() bool { return p.happened() >= n })
}

func (p *player) happened() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.seen)
}

// whatIsLeft returns that, by states and their times.
func (p *player) whatIsLeft() (all []happening) {
	p.Helper()
	for _, state := range []notify.State{notify.Scheduled, notify.Ready, notify.Blocked, notify.Leased, notify.Dead, notify.Done} {
		for m, err := range p.look.Messages(p.Context(), jobs, state) {
			storetest.Must(p, err)
			at := map[notify.State]time.Time{notify.Leased: m.Until, notify.Dead: m.Died, notify.Done: m.Ended}[state]
			if at.IsZero() {
				at = m.Due
			}
			what := fmt.Sprintf("%s %v, attempts %d", named(m.ID), state, m.Attempts)
			for name, text := range map[string]string{"reason": m.Reason, "result": string(m.Result)} {
				if text != "" {
					what += ", " + name + " " + text
				}
			}
			all = append(all, happening{at.Sub(p.began), what})
		}
	}
	return all
}

// A step is a verb, words, and options, in which _ stands for a space.
type step struct {
	verb    string
	words   []string
	options [][2]string
}

func stepOf(p *player, words []string) (s step) {
	s.verb = words[0]
	for _, word := range words[1:] {
		if name, value, is := strings.Cut(word, "="); is {
			s.options = append(s.options, [2]string{name, strings.ReplaceAll(value, "_", " ")})
		} else {
			s.words = append(s.words, word)
		}
	}
	return s
}

func (s *step) option(name string) string {
	for _, one := range s.options {
		if one[0] == name {
			return one[1]
		}
	}
	return ""
}

func (p *player) duration(text string) time.Duration {
	p.Helper()
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	storetest.Must(p, err)
	return d
}

// setFields sets the fields of what the options name.
func setFields[T any](p *player, s step, of *T) {
	p.Helper()
	for _, one := range s.options {
		f, is := fields.Named[T](one[0])
		if !is {
			p.Fatalf("%s: there is no option %s", s.verb, one[0])
		}
		storetest.Must(p, f.Set(reflect.ValueOf(of).Elem(), one[1]))
	}
}

// answers are what a worker does with each attempt of a message, by id; else it acknowledges.
type answers map[string][]string

// of returns what a worker does with an attempt: a word, and a delay.
func (a answers) of(id string, n int) (what string, delay time.Duration) {
	id, _, _ = strings.Cut(id, "~")
	if n > len(a[id]) {
		return "ack", 0
	}
	what, text, _ := strings.Cut(a[id][n-1], ":")
	delay, _ = time.ParseDuration(text)
	return what, delay
}

// workOfTheLibrary runs a subscriber.
func workOfTheLibrary(p *player, a answers) {
	p.Helper()
	tries := make(map[string]int)
	sub := subscriberstest.Subscriber(p, p.store)
	storetest.Must(p, sub.Handle(jobs, func(_ context.Context, d *subscribers.Delivery) error {
		p.note(named(d.ID), d.Attempt)
		tries[d.ID]++
		switch what, delay := a.of(d.ID, tries[d.ID]); what {
		case "fail":
			return subscribers.RetryAfter(errors.New("no"), delay)
		case "snooze":
			return subscribers.Snooze(delay)
		case "bury":
			return subscribers.ErrBury
		}
		return nil
	}, subscribers.HandleOptions{}))
	storetest.Run(p, sub.Run)
}

// named returns the id of a message, of an occurrence the name of its schedule.
func named(id string) string {
	name, _, _ := strings.Cut(id, "~")
	return name
}

// inBubble plays the history in a bubble.
func (h history) inBubble(t *testing.T) (p *player) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p = h.play(t, belltest.New(t, belltest.Options{At: began}), world{work: workOfTheLibrary, reach: func(p *player, goal time.Duration) {
			time.Sleep(goal - time.Since(p.began))
			synctest.Wait()
		}})
	})
	return p
}

// ends checks that all happened as it should, and when.
func (p *player) ends(t *testing.T) {
	t.Helper()
	storetest.Same(t, "what happened", happenings(t, p.history.seen), p.seen)
	storetest.Same(t, "what is left", happenings(t, p.history.left), p.left)
}

// Histories end as they should in a bubble, at those very times.
func TestHistoriesInABubble(t *testing.T) {
	t.Parallel()
	for _, h := range histories {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			h.inBubble(t).ends(t)
		})
	}
}

// They do by a manual clock, with a worker over HTTP, at those very times, too.
func TestHistoriesByAManualClock(t *testing.T) {
	t.Parallel()
	for _, h := range histories {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			inBubble, s := h.inBubble(t), open(t)
			h.play(t, s.store, world{
				work: func(p *player, a answers) {
					tries := make(map[string]int)
					s.worker(jobs, func(d api.Delivery) string {
						p.note(named(d.ID), d.Attempt)
						tries[d.ID]++
						switch what, delay := a.of(d.ID, tries[d.ID]); what {
						case "fail":
							return fmt.Sprintf("nack?receipt=%d&delay=%v&reason=no", d.Receipt, delay)
						case "snooze":
							return fmt.Sprintf("nack?receipt=%d&delay=%v&attempt=keep", d.Receipt, delay)
						case "bury":
							return fmt.Sprintf("nack?receipt=%d&dead=true&reason=%s", d.Receipt, url.QueryEscape(subscribers.ErrBury.Error()))
						}
						return acks(d)
					})
				},
				reach: func(p *player, goal time.Duration) {
					if goal > p.now().Sub(p.began) {
						query := "to=" + p.began.Add(goal).UTC().Format(time.RFC3339Nano)
						if len(p.held) > 0 { // who has it goes on only when time has passed
							query += "&force=true&wait=0s"
						}
						s.advance(query)
					}
					p.catchUp(inBubble)
				},
			}).ends(t)
		})
	}
}

// They do on a redis-server: in that order, and nothing is early.
func TestHistoriesInRealTime(t *testing.T) {
	t.Parallel()
	same := func(t *testing.T, what string, want, got []happening) {
		t.Helper()
		for i := range min(len(want), len(got)) {
			if early := want[i].At - got[i].At; early > 0 {
				t.Errorf("%s: %s, %v early", what, got[i].What, early)
			}
			got[i].At = want[i].At
		}
		storetest.Same(t, what, want, got)
	}
	for _, h := range histories {
		if h.long {
			continue
		}
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			inBubble, db := h.inBubble(t), storetest.Open(t)
			c, err := carrier.New(db, carrier.Options{Logger: slog.New(slog.DiscardHandler)})
			storetest.Must(t, err)
			storetest.Run(t, c.Run)
			p := h.play(t, db, world{work: workOfTheLibrary, reach: func(p *player, goal time.Duration) {
				for left := goal; left > 0; left = goal - p.now().Sub(p.began) {
					time.Sleep(left)
				}
				p.catchUp(inBubble)
			}})
			same(t, "what happened", happenings(t, h.seen), p.seen)
			same(t, "what is left", happenings(t, h.left), p.left)
		})
	}
}

// verbs are what steps do. What one cannot do is noted.
var verbs = map[string]func(p *player, s step){
	// advance DURATION: time passes
	"advance": func(p *player, s step) {
		p.planned += p.duration(s.words[0])
		p.reach(p, p.planned)
		p.by = append(p.by, p.happened())
	},

	// work ID=ANSWER,ANSWER...: a worker runs from now on
	"work": func(p *player, s step) {
		a := make(answers)
		for _, one := range s.options {
			a[one[0]] = strings.Split(one[1], ",")
		}
		p.work(p, a)
	},

	// publish ID [at=SINCE] [OPTION=VALUE...]
	"publish":   func(p *player, s step) { p.publish(s, false) },
	"broadcast": func(p *player, s step) { p.publish(s, true) },
	"reschedule": func(p *player, s step) {
		_, err := p.pub.RescheduleIn(p.Context(), jobs, s.words[0], p.duration(s.words[1]))
		storetest.Must(p, err)
	},

	// cancel ID [stop]
	"cancel": func(p *player, s step) {
		was, err := p.pub.Cancel(p.Context(), jobs, s.words[0], store.CancelOptions{Stop: slices.Contains(s.words, "stop")})
		storetest.Must(p, err)
		p.note(s.words[0], "was", was)
	},
	"pause": func(p *player, s step) {
		_, err := store.PauseUntil(p.Context(), p.store, jobs, store.In(p.duration(s.words[0])))
		storetest.Must(p, err)
	},
	"set": func(p *player, s step) {
		var c notify.SettingsChange
		setFields(p, s, &c)
		storetest.Set(p, p.store, jobs, c)
	},
	"schedule": func(p *player, s step) {
		of := store.Schedule{Topic: jobs, Name: s.words[0]}
		setFields(p, s, &of)
		_, _, err := p.store.Of(jobs).PutSchedule(p.Context(), &of, store.AnyRevision)
		storetest.Must(p, err)
	},

	// claim N [lease=DURATION]: wait for so many; 0: see that there are none
	"claim": func(p *player, s step) {
		var n int
		_, err := fmt.Sscan(s.words[0], &n)
		storetest.Must(p, err)
		o := subscribers.ClaimOptions{Max: max(n, 1), Lease: p.duration(s.option("lease"))}
		if n > 0 {
			o.Wait = storetest.Deadline
		}
		for got := 0; ; {
			ds, err := p.claim.Claim(p.Context(), jobs, o)
			storetest.Must(p, err)
			for _, d := range ds {
				p.note("claims", d.ID, d.Attempt)
				p.held[d.ID] = d
			}
			if got += len(ds); got >= n {
				return
			}
		}
	},
	"extend": func(p *player, s step) {
		d := p.held[s.words[0]]
		p.refused(s, d.Extend(p.Context(), p.duration(s.words[1])))
		p.held[d.ID] = d
	},

	// ack ID [RESULT]: and keep that for an hour
	"ack": func(p *player, s step) {
		d := p.held[s.words[0]]
		delete(p.held, d.ID)
		if len(s.words) == 1 {
			p.refused(s, d.Ack(p.Context()))
			return
		}
		_, err := d.AckWith(p.Context(), notify.AckResult{Body: []byte(s.words[1]), Keep: time.Hour})
		p.refused(s, err)
	},
	"nack": func(p *player, s step) {
		d := p.held[s.words[0]]
		delete(p.held, d.ID)
		p.refused(s, storetest.ErrOf(d.Nack(p.Context(), p.duration(s.words[1]), "no")))
	},

	// await ID: in the background
	"await": func(p *player, s step) {
		p.awaited.Go(func() {
			info, err := p.look.Await(p.Context(), jobs, s.words[0])
			storetest.Should(p, err)
			p.note(s.words[0], "ended", info.State, string(info.Result))
		})
	},

	// listen NAME
	"listen": func(p *player, s step) {
		started := make(chan bool, 1)
		p.leave[s.words[0]] = storetest.Run(p, func(ctx context.Context) error {
			return subscriberstest.Listener(p, p.store).Listen(ctx, jobs, func(_ context.Context, b *subscribers.Broadcast) error {
				p.note(s.words[0], "hears", b.ID)
				return nil
			}, subscribers.ListenOptions{Name: s.words[0], OnStart: func(subscribers.Bookmark) { started <- true }})
		})
		storetest.Receive(p, "it listens", started)
	},
	"leave": func(p *player, s step) { p.leave[s.words[0]]() },
}

// publish publishes a message; at is when it is due, since the history began.
func (p *player) publish(s step, isBroadcast bool) {
	p.Helper()
	m := notify.Message{Topic: jobs, ID: s.words[0], Broadcast: isBroadcast}
	if at := s.option("at"); at != "" {
		m.Due = p.began.Add(p.duration(at))
		s.options = slices.DeleteFunc(s.options, func(one [2]string) bool { return one[0] == "at" })
	}
	setFields(p, s, &m)
	_, err := p.pub.Publish(p.Context(), m)
	p.refused(s, err)
}

// refused notes that a step is refused.
func (p *player) refused(s step, err error) {
	p.Helper()
	for word, is := range map[string]error{"exists": notify.ErrExists, "lost": notify.ErrLeaseLost, "stop": store.ErrCancelled} {
		if errors.Is(err, is) {
			p.note(s.verb, s.words[0], "is refused:", word)
			return
		}
	}
	storetest.Must(p, err)
}
