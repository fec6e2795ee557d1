package store_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
)

var groupHistories = flag.Int("groups.histories", 200, "how many random histories of groups are played")

// The numbers of what a random history has.
const (
	memberIDs   = 8
	groupNames  = 3
	callbackIDs = 4
)

// grouped is a topic whose messages are in groups, in half of the histories with branches, one beside it for callbacks, and what a random history does
// to them.
type grouped struct {
	*storetest.Player
	rand   *rand.Rand
	seed   uint64
	works  []string                          // the topics in which members are handled: the topic, and the branches that it has at times
	beside string                            // the topic of the callbacks
	held   map[string][]store.ClaimedMessage // by topic, what the history has claimed; the leases of some are over
	log    []string
	model  map[string]*groupModel // by TOPIC:NAME
	done   map[string]int         // of each callback's body how often it was acknowledged
	bodies int
}

// A groupModel is what must be true of a group.
type groupModel struct {
	complete bool
	gone     int              // messages that left it
	over     store.GroupState // how it is since its callback is gone: acknowledged, or cancelled while it waited; empty: unknown
}

func openGrouped(t *testing.T, db *notify.Store, topic string, seed uint64) *grouped {
	t.Helper()
	p := storetest.NewPlayer(t, storetest.Scenario{Topic: topic, Open: func(testing.TB) *notify.Store { return db }})
	g := &grouped{
		Player: p, seed: seed, rand: rand.New(rand.NewPCG(seed, 0)), beside: storetest.Beside(db, topic, topic+".done"),
		held: make(map[string][]store.ClaimedMessage), model: make(map[string]*groupModel), done: make(map[string]int),
	}
	for _, of := range []string{g.Topic, g.beside} {
		for i := range groupNames {
			g.model[fmt.Sprintf("%s:g%d", of, i)] = &groupModel{}
		}
	}
	if g.works = []string{topic}; seed%2 == 0 {
		g.works = append(g.works, topic+"@x", topic+"@y")
		g.must(g.branches(g.Context(), "x,y"))
	}
	return g
}

func (g *grouped) must(err error) {
	g.Helper()
	for _, is := range []error{
		nil, notify.ErrExists, notify.ErrLeased, notify.ErrInvalid, notify.ErrDead, store.ErrGroupComplete, store.ErrGroupTaken, notify.ErrNotFound,
	} {
		if errors.Is(err, is) {
			return
		}
	}
	g.Fatalf("%v\n%s", err, strings.Join(g.log, "\n"))
}

// branches changes the branches of the topic.
func (g *grouped) branches(ctx context.Context, change string) error {
	return storetest.ErrOf(g.Inspector.Set(ctx, g.Topic, notify.SettingsChange{Branches: &change}))
}

// topics returns the topics of all messages.
func (g *grouped) topics() []string { return append(slices.Clone(g.works), g.beside) }

// play plays a history, and looks at both topics after each step.
func (g *grouped) play(steps int) {
	for range steps {
		g.did(g.step)
	}
}

// did does a step, and looks at both topics before and after it.
func (g *grouped) did(step func(ctx context.Context, before groupView) (what, more string)) {
	g.Helper()
	before := g.read()
	what, more := step(g.Context(), before)
	g.log = append(g.log, what+" "+more)
	after := g.read()
	wrong := slices.Concat(after.check(), g.judge(what, before, after), g.inspected(after))
	if len(wrong) > 0 || g.Failed() {
		g.Fatalf("seed %d: %s\nbefore: %+v\nafter: %+v\nthe history:\n%s", g.seed, strings.Join(wrong, "\n"), before, after, strings.Join(g.log[max(0, len(g.log)-25):], "\n"))
	}
}

// inspected reports where Inspect says another number of those that are left than the records do.
func (g *grouped) inspected(v groupView) (wrong []string) {
	for member, m := range v.messages {
		if !m.waits() {
			continue
		}
		info, err := g.Inspector.Inspect(g.Context(), g.beside, strings.TrimPrefix(member, g.beside+":"))
		g.must(err)
		if want := v.left(m.AfterGroup, m.OnDead == "go"); info.Left == nil || *info.Left != want {
			wrong = append(wrong, fmt.Sprintf("%s waits for %d, and Inspect says %v", member, want, info.Left))
		}
	}
	return append(wrong, g.shown(v)...)
}

// shown reports groups whose callbacks are gone, and that do not show how they are since.
func (g *grouped) shown(v groupView) (wrong []string) {
	for _, m := range v.messages {
		if model := g.model[m.AfterGroup]; model != nil {
			model.over = ""
		}
	}
	for group, model := range g.model {
		topic, name, _ := strings.Cut(group, ":")
		if model.over == "" || v.number(topic, name) == "" {
			continue
		}
		if is, _, err := store.ShowGroup(g.Context(), g.Store, topic, name); err != nil || is.State != model.over && !model.complete {
			wrong = append(wrong, fmt.Sprintf("%s is %v, %v, and must be %s", group, is, err, model.over))
		}
	}
	return wrong
}

// drain handles all that is left: each callback comes in the end.
func (g *grouped) drain() {
	for round := 0; round < 200 && len(g.read().messages) > 0; round++ {
		for _, of := range g.topics() {
			g.did(func(ctx context.Context, _ groupView) (string, string) {
				deal := g.Shard.Requeue
				if round >= 20 {
					deal = g.Shard.Purge
				}
				_, err := deal(ctx, of, g.oldest(of, 50))
				g.must(err)
				return "deal", of
			})
			g.did(g.hasten)
			g.did(func(context.Context, groupView) (string, string) { g.Carry(false); return "carry", "" })
			g.did(func(ctx context.Context, before groupView) (string, string) {
				claimed, err := g.Shard.Claim(ctx, store.Claim{Topic: of, Max: 100, Lease: time.Minute})
				g.must(err)
				g.held[of] = append(g.held[of], claimed.Messages...)
				return "claim", fmt.Sprint(claimed)
			})
			for _, m := range g.held[of] {
				g.did(func(ctx context.Context, before groupView) (string, string) {
					return "ack", g.ack(ctx, of, before, m.Lease)
				})
			}
			g.held[of] = nil
		}
	}
	if v := g.read(); len(v.messages)+len(v.entries[g.Topic])+len(v.entries[g.beside]) > 0 {
		g.Errorf("still there: %+v\nthe history:\n%s", v, strings.Join(g.log, "\n"))
	}
	for body, n := range g.done {
		if n != 1 {
			g.Errorf("the callback %s was acknowledged %d times\n%s", body, n, strings.Join(g.log, "\n"))
		}
	}
}

// hasten has all be due that is scheduled, but what waits for a group.
func (g *grouped) hasten(ctx context.Context, before groupView) (what, more string) {
	for member, m := range before.messages {
		if topic, _, _ := strings.Cut(member, ":"); m.at == "scheduled" && !m.waits() {
			_, _, err := g.Shard.Reschedule(ctx, topic, member, 0, time.Time{})
			g.must(err)
		}
	}
	return "hasten", ""
}

// No callback comes while a message of its group has not ended, exactly one does once none has, and how many are left is right after each
// step, whatever is done to the messages.
func TestGroups(t *testing.T) {
	t.Parallel()
	playGroups(t, storetest.Open(t), *groupHistories)
}

// The in-memory server of bellhop dev has groups, too.
func TestGroupsInMemory(t *testing.T) {
	if storetest.Shards() > 1 {
		t.Skip("it holds one shard")
	}
	t.Parallel()
	_, db := storetest.Trial(t, "groups")
	playGroups(t, db, 20)
}

// playGroups plays n random histories, each on topics of its own.
func playGroups(t *testing.T, db *notify.Store, n int) {
	t.Helper()
	for i := range n {
		seed := rand.Uint64()
		g := openGrouped(t, db, fmt.Sprint("t", i), seed)
		g.play(60)
		g.drain()
		if t.Failed() {
			t.FailNow()
		}
		storetest.Must(t, storetest.ErrOf(g.Shard.Resign(t.Context(), g.Token(), "", 0)))
	}
}
