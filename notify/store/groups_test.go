package store_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
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

var groupHistories = flag.Int("groups.histories", 200, "how many random histories of groups are played")

// The numbers of what a random history has.
const (
	memberIDs   = 8
	groupNames  = 3
	callbackIDs = 4
)

// grouped is a topic whose messages are in groups, one beside it for callbacks, and what a random history does to them.
type grouped struct {
	*storetest.Player
	rand   *rand.Rand
	seed   uint64
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
	gone     int // messages that left it
}

// A held message is one that has a record.
type heldMessage struct {
	record.Record
	at   string  // the place
	time float64 // in that
}

// groupView is what a shard has of both topics at one moment.
type groupView struct {
	messages map[string]heldMessage        // by member
	entries  map[string]map[string]float64 // by topic and id
	heads    map[string]map[string]string  // by topic
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
	return g
}

// read reads all of both topics at one moment.
func (g *grouped) read() groupView {
	g.Helper()
	ctx, keys, tx := g.Context(), g.Store.KeysOf(g.Topic), g.Store.Client().TxPipeline()
	records, leased := tx.HGetAll(ctx, keys.Messages()), tx.ZRangeWithScores(ctx, keys.Leased(), 0, -1)
	places := map[string]*redis.ZSliceCmd{"leased": leased}
	entries, heads, blocked := make(map[string]*redis.ZSliceCmd), make(map[string]*redis.MapStringStringCmd), make(map[string]*redis.MapStringStringCmd)
	for _, of := range []string{g.Topic, g.beside} {
		places["scheduled "+of] = tx.ZRangeWithScores(ctx, keys.Scheduled(of), 0, -1)
		places["ready "+of] = tx.ZRangeWithScores(ctx, keys.Ready(of), 0, -1)
		places["dead "+of] = tx.ZRangeWithScores(ctx, keys.Dead(of), 0, -1)
		entries[of], heads[of], blocked[of] = tx.ZRangeWithScores(ctx, keys.Grouped(of), 0, -1), tx.HGetAll(ctx, keys.GroupsOf(of)), tx.HGetAll(ctx, keys.KeysOf(of))
	}
	storetest.Must(g, storetest.ErrOf(tx.Exec(ctx)))
	v := groupView{make(map[string]heldMessage), make(map[string]map[string]float64), make(map[string]map[string]string)}
	for member, text := range records.Val() {
		if of, _, _ := strings.Cut(member, ":"); of != g.Topic && of != g.beside || strings.HasPrefix(text, "=") {
			continue
		}
		r, err := record.Decode(text)
		storetest.Must(g, err)
		v.messages[member] = heldMessage{Record: r}
	}
	for name, list := range places {
		for _, z := range list.Val() {
			if m, is := v.messages[z.Member.(string)]; is {
				m.at, m.time = strings.Fields(name)[0], z.Score
				v.messages[z.Member.(string)] = m
			}
		}
	}
	for _, of := range []string{g.Topic, g.beside} {
		v.heads[of], v.entries[of] = heads[of].Val(), make(map[string]float64)
		for _, z := range entries[of].Val() {
			v.entries[of][z.Member.(string)] = z.Score
		}
		for id, noted := range blocked[of].Val() {
			if m, is := v.messages[of+":"+id]; is && strings.Contains(noted, " ") && m.at == "" {
				m.at = "blocked"
				v.messages[of+":"+id] = m
			}
		}
	}
	return v
}

// left returns how many of a group have not ended, by the records alone; with a callback that goes, dead ones have.
func (v groupView) left(group string, goes bool) (n int64) {
	topic, name, _ := strings.Cut(group, ":")
	for member, m := range v.messages {
		if strings.HasPrefix(member, topic+":") && m.Group == name && !(goes && m.at == "dead") {
			n++
		}
	}
	return n
}

// number returns the number of a group, as text; empty if there is none.
func (v groupView) number(topic, name string) string {
	n, _, _ := strings.Cut(v.heads[topic][name], " ")
	return n
}

// waits reports whether a message waits for its group.
func (m heldMessage) waits() bool {
	return m.AfterGroup != "" && m.at == "scheduled" && m.time == float64(record.MaxDue.UnixMilli())
}

// check reports what is wrong with the entries: each message that names a group has that group's, and no other id has one.
func (v groupView) check() (wrong []string) {
	fail := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	for member, m := range v.messages {
		topic, id, _ := strings.Cut(member, ":")
		score, is := v.entries[topic][id]
		want, _ := strconv.ParseFloat(v.number(topic, m.Group), 64)
		if m.at == "dead" {
			want += 0.5
		}
		if is != (m.Group != "") || is && (score != want || want < 1) {
			fail("%s is %s and in the group %q: its entry is %v, %v, and that of the group %v", member, m.at, m.Group, score, is, want)
		}
	}
	for topic, ids := range v.entries {
		for id, score := range ids {
			if _, is := v.messages[topic+":"+id]; !is {
				fail("%s:%s has the entry %v, and no record", topic, id, score)
			}
		}
	}
	return wrong
}

// counts returns how many left a group, by how.
func (v groupView) counts(group string) map[string]int {
	topic, name, _ := strings.Cut(group, ":")
	all := make(map[string]int)
	line, _, _ := strings.Cut(v.heads[topic]["#"+v.number(topic, name)], "\n")
	for _, word := range strings.Fields(line) {
		how, n, _ := strings.Cut(word, "=")
		all[how], _ = strconv.Atoi(n)
	}
	return all
}

// judge reports what is wrong with what a step did to groups.
func (g *grouped) judge(what string, before, after groupView) (wrong []string) {
	fail := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	for member, m := range before.messages {
		topic, _, _ := strings.Cut(member, ":")
		if now := after.messages[member]; m.Group != "" && now.Group != m.Group {
			g.model[topic+":"+m.Group].gone++
		}
	}
	for group, model := range g.model {
		c := after.counts(group)
		if n := c["acked"] + c["dead"] + c["dropped"] + c["cancelled"]; n != model.gone {
			fail("%d left %s, and its head says %v", model.gone, group, c)
		}
		if is := c["complete"] > 0; is != model.complete && (model.complete || what != "carry" || before.left(group, c["go"] > 0) > 0) {
			fail("%s is complete: %v, by %s", group, is, what)
		}
		model.complete = c["complete"] > 0
	}
	for member, m := range before.messages {
		now, is := after.messages[member]
		if !m.waits() || !is || string(now.Body) != string(m.Body) {
			continue
		}
		goes, model := m.OnDead == "go", g.model[m.AfterGroup]
		left := before.left(m.AfterGroup, goes)
		switch came := !now.waits(); {
		case came && strings.HasPrefix(what, "reschedule "+member):
		case came && (left > 0 || what != "carry" || !model.complete):
			fail("%s came by %s, and %d of %s were left", member, what, left, m.AfterGroup)
		case came:
			wrong = append(wrong, countsIn(now, after, m.AfterGroup)...)
		case what == "carry" && left == 0:
			fail("%s waits for %s, of which nobody is left", member, m.AfterGroup)
		}
	}
	return wrong
}

// countsIn reports what is wrong with the headers of a callback that came.
func countsIn(m heldMessage, v groupView, group string) (wrong []string) {
	counts := v.counts(group)
	counts["dead"] += int(v.left(group, false) - v.left(group, true))
	for header, how := range map[string]string{
		store.HeaderAfterAcked: "acked", store.HeaderAfterDead: "dead", store.HeaderAfterDropped: "dropped", store.HeaderAfterCancelled: "cancelled",
	} {
		if got := m.Headers[header]; got != strconv.Itoa(counts[how]) {
			wrong = append(wrong, fmt.Sprintf("the callback of %s has %s %q, and its head says %v", group, header, got, counts))
		}
	}
	return wrong
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

func (g *grouped) one(of ...string) string { return of[g.rand.IntN(len(of))] }

func (g *grouped) id() string { return "m" + strconv.Itoa(g.rand.IntN(memberIDs)) }

func (g *grouped) group() string { return "g" + strconv.Itoa(g.rand.IntN(groupNames)) }

// member returns a random message that may be in a group.
func (g *grouped) member() notify.Message {
	m := notify.Message{Topic: g.Topic, ID: g.id(), Group: g.one("", g.group(), g.group(), g.group()), Key: g.one("", "", "", "a")}
	m.Delay = []time.Duration{0, 0, 0, time.Millisecond, 3 * time.Millisecond, time.Hour}[g.rand.IntN(6)]
	m.IfExists = notify.IfExists(g.one("", "", "keep", "replace", "replace", "debounce"))
	if g.rand.IntN(4) == 0 {
		m.TTL = 4 * time.Millisecond
	}
	if g.rand.IntN(3) == 0 {
		m.MaxAttempts = 1
	}
	if g.rand.IntN(4) == 0 {
		m.Fail = notify.FailDrop
	}
	if g.rand.IntN(6) == 0 {
		m.LateAfter, m.Late = time.Millisecond, notify.Late(g.one("drop", "bury"))
	}
	if g.rand.IntN(6) == 0 {
		m.UniqueFor = 2 * time.Millisecond
	}
	if m.Group == "" && g.rand.IntN(3) == 0 {
		m.Then = notify.After
	}
	if m.Key != "" && g.rand.IntN(3) == 0 {
		m.IfBusy = "drop"
	}
	return m
}

// callback returns a random message that waits for a group: of either topic, and maybe in a group itself.
func (g *grouped) callback() notify.Message {
	g.bodies++
	m := notify.Message{Topic: g.beside, ID: "c" + strconv.Itoa(g.rand.IntN(callbackIDs)), Body: []byte(strconv.Itoa(g.bodies))}
	m.AfterGroup = g.one(g.Topic, g.Topic, g.Topic, g.beside) + ":" + g.group()
	m.OnDead, m.IfExists = g.one("", "stop", "go", "go"), notify.IfExists(g.one("", "", "keep", "replace"))
	if g.rand.IntN(3) == 0 {
		m.Group = g.group()
	}
	if g.rand.IntN(4) == 0 {
		m.Key = "a"
	}
	return m
}

// published checks what a publish was refused for, by the model.
func (g *grouped) published(before groupView, m notify.Message, err error) {
	g.Helper()
	g.must(err)
	complete := m.Group != "" && g.model[m.Topic+":"+m.Group].complete || m.AfterGroup != "" && g.model[m.AfterGroup].complete
	other := ""
	for member, one := range before.messages {
		if one.AfterGroup == m.AfterGroup && m.AfterGroup != "" && member != m.Topic+":"+m.ID {
			other = member
		}
	}
	_, known := before.messages[m.Topic+":"+m.ID]
	switch {
	case errors.Is(err, store.ErrGroupComplete) != complete && (err == nil && m.IfExists != notify.Keep || !complete):
		g.Errorf("publish %+v: %v, and the groups are complete: %v", m, err, complete)
	case errors.Is(err, store.ErrGroupTaken) && other == "", err == nil && other != "" && !(known && m.IfExists == notify.Keep):
		g.Errorf("publish %+v: %v, and %q waits for the group", m, err, other)
	}
}

// lease returns one that the history has, or had, of a topic.
func (g *grouped) lease(topic string) store.Lease {
	if held := g.held[topic]; len(held) > 0 {
		return held[g.rand.IntN(len(held))].Lease
	}
	return store.Lease{Member: topic + ":" + g.id(), Receipt: 1}
}

// step does something, and returns what, and more about it.
func (g *grouped) step(ctx context.Context, before groupView) (what, more string) {
	member := func(id string) string { return g.Topic + ":" + id }
	of := g.one(g.Topic, g.Topic, g.Topic, g.beside)
	shard := g.Shard
	switch g.rand.IntN(18) {
	case 0, 1:
		m := g.member()
		p, err := g.Publisher.Publish(ctx, m)
		g.published(before, m, err)
		if p.Outcome == store.OutcomeDropped && m.Group != "" && m.Group != before.messages[member(m.ID)].Group { // it joined, and left at once
			g.model[m.Topic+":"+m.Group].gone++
		}
		return "publish", fmt.Sprintf("%+v: %v, %v", m, p.Outcome, err)
	case 2:
		var all []notify.Message
		for _, i := range g.rand.Perm(memberIDs)[:1+g.rand.IntN(6)] {
			all = append(all, notify.Message{Topic: g.Topic, ID: fmt.Sprint("m", i), Group: g.group(), Delay: []time.Duration{0, 2 * time.Millisecond}[g.rand.IntN(2)]})
		}
		for i, r := range g.Publisher.PublishMany(ctx, all) {
			g.published(before, all[i], r.Err)
		}
		return "publish many", fmt.Sprintf("%+v", all)
	case 3, 4:
		m := g.callback()
		p, err := g.Publisher.Publish(ctx, m)
		g.published(before, m, err)
		return "publish a callback", fmt.Sprintf("%+v: %v %v", m, p, err)
	case 5, 6, 7:
		g.Carry(g.rand.IntN(2) == 0)
		return "carry", ""
	case 8, 9, 10:
		c := store.Claim{Topic: of, Max: 1 + g.rand.IntN(3), Lease: []time.Duration{2 * time.Millisecond, time.Minute}[g.rand.IntN(2)], AckNow: g.rand.IntN(5) == 0 && of == g.Topic}
		claimed, err := shard.Claim(ctx, c)
		g.must(err)
		if !c.AckNow {
			g.held[of] = append(g.held[of], claimed.Messages...)
		}
		return "claim", fmt.Sprintf("%+v: %v", c, claimed)
	case 11:
		var some []store.Lease
		for range 1 + g.rand.IntN(3) {
			some = append(some, g.lease(of))
		}
		return "ack", g.ack(ctx, of, before, some...)
	case 12:
		lease := g.lease(g.Topic)
		_, _, err := shard.AckWith(ctx, g.Topic, lease, store.Result{Keep: time.Millisecond * time.Duration(g.rand.IntN(2))})
		g.must(err)
		return "ack with a result", fmt.Sprint(lease)
	case 13:
		n := store.Nack{Lease: g.lease(of), Delay: 2 * time.Millisecond, Reason: "x", Bury: g.rand.IntN(3) == 0}
		n.Keep = !n.Bury && g.rand.IntN(2) == 0
		done, err := shard.Nack(ctx, of, n)
		g.must(err)
		return "nack", fmt.Sprintf("%+v: %+v", n, done)
	case 14:
		lost, err := shard.Release(ctx, of, reach.Inbox{}, 0, []store.Return{{Lease: g.lease(of)}})
		g.must(err)
		return "release", fmt.Sprint(lost)
	case 15:
		return g.change(ctx, of, member(g.id()))
	case 16:
		g.Sweep(store.Sweep{})
		return "sweep", ""
	default:
		letters := g.oldest(of, 1+g.rand.IntN(3))
		deal := shard.Requeue
		if g.rand.IntN(3) == 0 {
			deal = shard.Purge
		}
		done, err := deal(ctx, of, letters)
		g.must(err)
		return "deal", fmt.Sprintf("%v: %v", letters, done)
	}
}

// change cancels or reschedules a message, of the other topic one of the callbacks.
func (g *grouped) change(ctx context.Context, of, member string) (what, more string) {
	if of == g.beside {
		member = fmt.Sprintf("%s:c%d", of, g.rand.IntN(callbackIDs))
	}
	switch g.rand.IntN(5) {
	case 0, 1:
		was, err := g.Shard.Cancel(ctx, of, member)
		g.must(err)
		return "cancel " + member, was.String()
	case 2:
		_, err := g.Shard.Stop(ctx, of, member)
		g.must(err)
		return "stop " + member, ""
	}
	when := []store.When{0, store.In(time.Millisecond), store.In(time.Hour)}[g.rand.IntN(3)]
	was, _, err := g.Shard.Reschedule(ctx, of, member, when, time.Time{})
	g.must(err)
	return "reschedule " + member, fmt.Sprint(when, was)
}

// ack acknowledges messages, and notes the callbacks among them.
func (g *grouped) ack(ctx context.Context, of string, v groupView, leases ...store.Lease) string {
	g.Helper()
	lost, err := g.Shard.Ack(ctx, of, leases)
	g.must(err)
	seen := make(map[string]bool)
	for i, lease := range leases {
		if m, is := v.messages[lease.Member]; is && m.AfterGroup != "" && !slices.Contains(lost, i) && !seen[lease.Member] {
			seen[lease.Member] = true
			g.done[string(m.Body)]++
		}
	}
	return fmt.Sprintf("%v, lost %v", leases, lost)
}

// oldest returns the dead letters of a topic that died first.
func (g *grouped) oldest(of string, n int) (letters store.Letters) {
	ids := storetest.Dead(g.T, g.Store, of)
	for _, id := range ids[:min(n, len(ids))] {
		letters.Members = append(letters.Members, of+":"+id)
	}
	return letters
}

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
	return wrong
}

// drain handles all that is left: each callback comes in the end.
func (g *grouped) drain() {
	for round := 0; round < 200 && len(g.read().messages) > 0; round++ {
		for _, of := range []string{g.Topic, g.beside} {
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
