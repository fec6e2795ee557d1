package store_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

var branchHistories = flag.Int("branches.histories", 100, "how many random histories of branches are played")

// branched is a topic that has branches, and what a random history does to it. Each message has a body of its own.
type branched struct {
	*storetest.Player
	rand   *rand.Rand
	seed   uint64
	names  []string            // of the branches that the topic has
	paused bool                // the topic is
	bodies int                 // how many there were
	owed   map[string][]string // of each branch the bodies that came into it and have not ended
	held   map[string][]store.ClaimedMessage
	handed <-chan *redis.Message // what is handed over to the desk
	waits  []bool                // of each group, whether a callback was published
	log    []string
}

// branchGroups is how many groups a history has.
const branchGroups = 2

var branchNames = []string{"mail", "points", "crm"}

func (b *branched) branch(name string) string { return b.Topic + "@" + name }

// contents are the bodies of the messages of each topic.
func (b *branched) contents() map[string][]string {
	b.Helper()
	all, err := b.Store.Client().HGetAll(b.Context(), b.Shard.Keys().Messages()).Result()
	storetest.Must(b, err)
	found := make(map[string][]string)
	for member, record := range all {
		topic, _, _ := strings.Cut(member, ":")
		_, body, _ := strings.Cut(record, "\n")
		if record[0] != '=' {
			found[topic] = append(found[topic], body)
		}
	}
	for _, bodies := range found {
		slices.Sort(bodies)
	}
	return found
}

// some returns a random message for a topic.
func (b *branched) some(topic string) notify.Message {
	b.bodies++
	m := notify.Message{Topic: topic, ID: fmt.Sprint("m", b.rand.IntN(5)), Body: fmt.Appendf(nil, "%d", b.bodies)}
	m.Delay = []time.Duration{0, 0, time.Millisecond, time.Hour}[b.rand.IntN(4)]
	m.IfExists = []notify.IfExists{"", notify.Keep, notify.Replace}[b.rand.IntN(3)]
	m.Key = []string{"", "", "a"}[b.rand.IntN(3)]
	m.Group = []string{"", "", "g0", "g1"}[b.rand.IntN(4)]
	if b.rand.IntN(4) == 0 {
		m.UniqueFor = 2 * time.Millisecond
	}
	return m
}

// carry makes calls until one has nothing more to do at once, some of which Redis may refuse half way.
func (b *branched) carry() {
	b.Helper()
	if len(b.contents()[b.Topic]) > 0 && len(b.names) > 0 && !b.paused && b.rand.IntN(2) == 0 {
		right := []string{"zadd", "hset", "hdel", "zrem", "zremrangebyrank", "exists", "hincrby"}[b.rand.IntN(7)]
		poor := storetest.UserOf(b.T, b.Store) // a new one, since a store that lacks a right makes no more calls for a while
		storetest.Must(b, storetest.ErrOf(poor.Of(b.Topic).Settings(b.Context(), b.Topic)))
		poor.ACL(b.T, "-"+right)
		_, err := poor.Of(b.Topic).Carry(b.Context(), store.Carry{Token: b.Token(), Lease: time.Minute, Batch: 4, KeepCount: 100, KeepAge: time.Hour, Ready: "0"})
		b.log = append(b.log, fmt.Sprintf("carry without %s: %v", right, err))
		b.checkGroups()
	}
	for range 20 {
		b.Carry(true)
	}
}

// step does something, and returns in words what.
func (b *branched) step(ctx context.Context) string {
	b.Helper()
	name := branchNames[b.rand.IntN(len(branchNames))]
	of := b.branch(name)
	note := func(err error) string { return fmt.Sprint(" ", err) }
	switch b.rand.IntN(15) {
	case 0, 1, 2, 3:
		m := b.some(b.Topic)
		p, err := b.Publisher.Publish(ctx, m)
		return fmt.Sprintf("publish %+v: %v %v", m, p.Outcome, err)
	case 4:
		before := b.contents()[of]
		m := b.some(of)
		m.IfExists = ""
		_, err := b.Publisher.Publish(ctx, m)
		if err == nil && len(b.contents()[of]) > len(before) {
			b.owed[of] = append(b.owed[of], string(m.Body))
		}
		return fmt.Sprintf("publish %+v: %v", m, err)
	case 5, 6:
		b.carry()
		return "carry"
	case 7:
		change := []string{"+" + name, "-" + name, "", "mail,points"}[b.rand.IntN(4)]
		settings, err := b.Inspector.Set(ctx, b.Topic, notify.SettingsChange{Branches: &change})
		if err == nil {
			b.names = strings.FieldsFunc(settings.Branches, func(r rune) bool { return r == ',' })
		}
		return "branches=" + change + note(err)
	case 8:
		b.paused = !b.paused
		set := b.Inspector.Resume
		if b.paused {
			set = b.Inspector.Pause
		}
		return fmt.Sprint("paused ", b.paused, set(ctx, b.Topic))
	case 9:
		claimed, err := b.Shard.Claim(ctx, store.Claim{
			Topic: of, Max: 1 + b.rand.IntN(3), Lease: []time.Duration{2 * time.Millisecond, time.Minute}[b.rand.IntN(2)],
			Inbox: []reach.Inbox{{}, reach.NewInbox("desk", true), reach.NewInbox("gone", true)}[b.rand.IntN(3)],
		})
		b.held[of] = append(b.held[of], claimed.Messages...)
		return fmt.Sprintf("claim %s: %v", of, claimed.Messages) + note(err)
	case 10:
		return b.ack(ctx, of)
	case 11:
		if len(b.held[of]) == 0 {
			return "nothing"
		}
		n := store.Nack{Lease: b.held[of][0].Lease, Delay: time.Millisecond, Reason: "x", Bury: b.rand.IntN(2) == 0}
		_, err := b.Shard.Nack(ctx, of, n)
		return fmt.Sprintf("nack %+v", n) + note(err)
	case 12:
		return b.await(ctx, b.rand.IntN(branchGroups))
	case 13:
		_, err := b.Shard.Requeue(ctx, of, store.Letters{Members: membersOf(of, storetest.Dead(b.T, b.Store, of))})
		return "requeue " + of + note(err)
	}
	_, err := b.Shard.Cancel(ctx, b.Topic, b.Topic+":"+fmt.Sprint("m", b.rand.IntN(5)))
	return "cancel an original" + note(err)
}

// await publishes what waits for a group, once.
func (b *branched) await(ctx context.Context, group int) string {
	b.Helper()
	if b.waits[group] {
		return "nothing"
	}
	b.bodies++
	m := notify.Message{Topic: b.Topic, ID: fmt.Sprint("c", group), Body: fmt.Appendf(nil, "%d", b.bodies), AfterGroup: fmt.Sprintf("%s:g%d", b.Topic, group)}
	_, err := b.Publisher.Publish(ctx, m)
	storetest.Must(b, err)
	b.waits[group] = true
	return fmt.Sprintf("publish %+v", m)
}

// checkGroups checks that all that are in groups have entries, however a call stopped, and that no callback came of whose group something is left.
func (b *branched) checkGroups() {
	b.Helper()
	ctx, keys, tx := b.Context(), b.Shard.Keys(), b.Store.Client().TxPipeline()
	records, entries, heads := tx.HGetAll(ctx, keys.Messages()), tx.ZRangeWithScores(ctx, keys.Grouped(b.Topic), 0, -1), tx.HGetAll(ctx, keys.GroupsOf(b.Topic))
	storetest.Must(b, storetest.ErrOf(tx.Exec(ctx)))
	numbers, left, came := make(map[string]string), make(map[string]int), make(map[string]bool)
	for _, z := range entries.Val() {
		numbers[z.Member.(string)] = fmt.Sprint(int(z.Score))
	}
	for member, text := range records.Val() {
		if homeOf(member) != b.Topic || text[0] == '=' {
			continue
		}
		r, err := record.Decode(text)
		storetest.Must(b, err)
		number, _, _ := strings.Cut(heads.Val()[r.Group], " ")
		if r.Group != "" && numbers[strings.TrimPrefix(strings.TrimPrefix(member, b.Topic), ":")] != number {
			b.Errorf("%s is in %s, and has no such entry: %v", member, r.Group, entries.Val())
		}
		left[r.Group]++
		if _, name, _ := strings.Cut(r.AfterGroup, ":"); name != "" && !r.FirstDue.Equal(record.MaxDue) {
			came[name] = true
		}
	}
	for i := range branchGroups {
		name := fmt.Sprint("g", i)
		if came[name] = came[name] || strings.Contains(heads.Val()[name], " "); came[name] && left[name] > 0 {
			b.Errorf("the callback of %s came, and %d of it are left", name, left[name])
		}
	}
}

func membersOf(topic string, ids []string) (members []string) {
	for _, id := range ids {
		members = append(members, topic+":"+id)
	}
	return members
}

// receive notes what was handed over to the desk.
func (b *branched) receive() {
	for {
		select {
		case m := <-b.handed:
			if h, is := (store.Event{Payload: m.Payload}).Handover(); is {
				b.held[h.Topic] = append(b.held[h.Topic], h.ClaimedMessage)
			}
		default:
			return
		}
	}
}

// ack acknowledges what is held of a branch: what is not lost has ended.
func (b *branched) ack(ctx context.Context, of string) string {
	b.Helper()
	b.receive()
	for _, m := range b.held[of] {
		_, body, _ := strings.Cut(m.Record, "\n")
		lost, err := b.Shard.Ack(ctx, of, []store.Lease{m.Lease})
		storetest.Must(b, err)
		if len(lost) > 0 {
			continue
		}
		i := slices.Index(b.owed[of], body)
		if i < 0 {
			b.Errorf("%s was handled in %s, where it should not be", body, of)
			continue
		}
		b.owed[of] = slices.Delete(b.owed[of], i, i+1)
	}
	b.held[of] = nil
	return "ack all of " + of
}

// did does a step, and checks that each branch has what is owed to it: what the carrier took out of the topic, of that step's branches, and nothing else.
func (b *branched) did(step func(ctx context.Context) string) {
	b.Helper()
	before := b.contents()[b.Topic]
	names := slices.Clone(b.names)
	what := step(b.Context())
	b.log = append(b.log, what)
	after := b.contents()
	for _, body := range before {
		for _, name := range names {
			if what == "carry" && !slices.Contains(after[b.Topic], body) {
				b.owed[b.branch(name)] = append(b.owed[b.branch(name)], body)
			}
		}
	}
	for _, name := range branchNames {
		slices.Sort(b.owed[b.branch(name)])
		if !slices.Equal(b.owed[b.branch(name)], after[b.branch(name)]) {
			b.Errorf("%s has %v, want %v", name, after[b.branch(name)], b.owed[b.branch(name)])
		}
	}
	b.checkGroups()
	if b.Failed() {
		b.Fatalf("seed %d, of %v, now %v; the history:\n%s", b.seed, before, slices.Sorted(maps.Keys(after)), strings.Join(b.log[max(0, len(b.log)-25):], "\n"))
	}
}

// hasten has all be due that is scheduled.
func (b *branched) hasten(of string) {
	b.Helper()
	for info, err := range b.Inspector.Messages(b.Context(), of, notify.Scheduled) {
		storetest.Must(b, err)
		if info.Left == nil {
			_, _, err = b.Shard.Reschedule(b.Context(), of, of+":"+info.ID, 0, time.Time{})
			storetest.Must(b, err)
		}
	}
}

// drain copies and handles all that is left.
func (b *branched) drain(ctx context.Context) {
	b.did(func(ctx context.Context) string {
		all := strings.Join(branchNames, ",")
		storetest.Must(b, storetest.ErrOf(b.Inspector.Set(ctx, b.Topic, notify.SettingsChange{Branches: &all})))
		b.names = branchNames
		storetest.Must(b, b.Inspector.Resume(ctx, b.Topic))
		b.hasten(b.Topic)
		return "hasten"
	})
	storetest.Eventually(b, fmt.Sprint("all is handled of seed ", b.seed), func() bool { // a hand-over may be on its way
		b.did(func(context.Context) string { b.carry(); return "carry" })
		b.did(func(context.Context) string { b.sweep(); return "sweep" })
		for _, name := range branchNames {
			of := b.branch(name)
			b.hasten(of)
			b.did(func(ctx context.Context) string {
				storetest.Must(b, storetest.ErrOf(b.Shard.Requeue(ctx, of, store.Letters{Members: membersOf(of, storetest.Dead(b.T, b.Store, of))})))
				claimed, err := b.Shard.Claim(ctx, store.Claim{Topic: of, Max: 100, Lease: time.Minute})
				storetest.Must(b, err)
				b.held[of] = append(b.held[of], claimed.Messages...)
				return b.ack(ctx, of)
			})
		}
		return len(b.contents()) == 0
	})
	for i := range branchGroups {
		name := fmt.Sprint("g", i)
		g, _, err := store.ShowGroup(ctx, b.Store, b.Topic, name)
		if errors.Is(err, store.ErrNoGroup) && !b.waits[i] {
			continue
		}
		if err != nil || g.Left > 0 || (g.State == store.GroupDone) != b.waits[i] {
			b.Errorf("seed %d: %s is %+v, %v; the history:\n%s", b.seed, name, g, err, strings.Join(b.log, "\n"))
		}
		_, _, err = store.ForgetGroup(ctx, b.Store, b.Topic, name) // else the housekeeping looks at it in the next history
		storetest.Must(b, err)
	}
}

// sweep has the housekeeping look at all groups.
func (b *branched) sweep() {
	b.Helper()
	for w := (store.Sweep{}); ; {
		swept := b.Sweep(w)
		if w.Group, w.Seat = swept.Group, swept.Seat; w.Group == "" || w.Group == "0 0 0" {
			return
		}
	}
}

// playBranched plays a random history of a topic.
func playBranched(t *testing.T, db *notify.Store, topic string) {
	t.Helper()
	b := &branched{seed: rand.Uint64(), owed: make(map[string][]string), held: make(map[string][]store.ClaimedMessage), waits: make([]bool, branchGroups)}
	b.rand = rand.New(rand.NewPCG(b.seed, 0))
	b.Player = storetest.NewPlayer(t, storetest.Scenario{Topic: topic, Open: func(testing.TB) *notify.Store { return db }})
	desk := storetest.Subscribe(t, db, b.Shard.Keys().Hands("desk"))
	b.handed = desk.Channel()
	for range 40 {
		b.did(b.step)
	}
	b.drain(t.Context())
	storetest.Must(t, desk.Close())
	storetest.Must(t, storetest.ErrOf(b.Shard.Resign(t.Context(), b.Token(), "", 0)))
}

// Each message comes once into each branch that its topic has when it is copied, and is there until it ends, whatever is done meanwhile, and where
// the carrier lacks a right for a while. What was copied leaves the topic. What waits for a group comes once no message or copy is in that, not before.
func TestBranchHistories(t *testing.T) {
	t.Parallel()
	const atOnce = 4 // where a script was stopped, a hand-over may have to end first
	for part := range atOnce {
		t.Run(fmt.Sprint("part ", part), func(t *testing.T) {
			t.Parallel()
			db := storetest.Open(t)
			for i := part; i < *branchHistories && !t.Failed(); i += atOnce {
				playBranched(t, db, fmt.Sprint("t", i))
			}
		})
	}
}
