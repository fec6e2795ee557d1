package store_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

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

// read reads all of both topics at one moment.
func (g *grouped) read() groupView {
	g.Helper()
	ctx, keys, tx := g.Context(), g.Store.KeysOf(g.Topic), g.Store.Client().TxPipeline()
	records, leased := tx.HGetAll(ctx, keys.Messages()), tx.ZRangeWithScores(ctx, keys.Leased(), 0, -1)
	places := map[string]*redis.ZSliceCmd{"leased": leased}
	entries, heads, blocked := make(map[string]*redis.ZSliceCmd), make(map[string]*redis.MapStringStringCmd), make(map[string]*redis.MapStringStringCmd)
	for _, of := range g.topics() {
		places["scheduled "+of] = tx.ZRangeWithScores(ctx, keys.Scheduled(of), 0, -1)
		places["ready "+of] = tx.ZRangeWithScores(ctx, keys.Ready(of), 0, -1)
		places["dead "+of] = tx.ZRangeWithScores(ctx, keys.Dead(of), 0, -1)
		blocked[of] = tx.HGetAll(ctx, keys.KeysOf(of))
	}
	for _, of := range []string{g.Topic, g.beside} {
		entries[of], heads[of] = tx.ZRangeWithScores(ctx, keys.Grouped(of), 0, -1), tx.HGetAll(ctx, keys.GroupsOf(of))
	}
	storetest.Must(g, storetest.ErrOf(tx.Exec(ctx)))
	v := groupView{make(map[string]heldMessage), make(map[string]map[string]float64), make(map[string]map[string]string)}
	for member, text := range records.Val() {
		if of, _, _ := strings.Cut(member, ":"); !slices.Contains(g.topics(), of) || strings.HasPrefix(text, "=") {
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
	for of, list := range entries {
		v.heads[of], v.entries[of] = heads[of].Val(), make(map[string]float64)
		for _, z := range list.Val() {
			v.entries[of][z.Member.(string)] = z.Score
		}
	}
	for of, all := range blocked {
		for id, noted := range all.Val() {
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
		if homeOf(member) == topic && m.Group == name && !(goes && m.at == "dead") {
			n++
		}
	}
	return n
}

// homeOf returns the topic that has the groups of a topic, or of a member.
func homeOf(name string) string {
	topic, _, _ := strings.Cut(name, ":")
	of, _ := record.SplitBranch(topic)
	return of
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
		topic := homeOf(member)
		score, is := v.entries[topic][strings.TrimPrefix(strings.TrimPrefix(member, topic), ":")]
		want, _ := strconv.ParseFloat(v.number(topic, m.Group), 64)
		if m.at == "dead" {
			want += 0.5
		}
		if is != (m.Group != "") || is && (score != want || want < 1) {
			fail("%s is %s and in the group %q: its entry is %v, %v, and that of the group %v", member, m.at, m.Group, score, is, want)
		}
	}
	for topic, entries := range v.entries {
		for entry, score := range entries {
			_, is := v.messages[topic+":"+entry]
			if _, ofBranch := v.messages[topic+entry]; !is && !ofBranch {
				fail("%s has %s → %v, which has no record", topic, entry, score)
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
		now := after.messages[member]
		isOther := now.Group != m.Group || what == "carry" && string(now.Body) != string(m.Body) // a copy may get the id of one that the same call ended
		if m.Group != "" && isOther && !after.copies(member, m) {
			g.model[homeOf(member)+":"+m.Group].gone++
		}
	}
	for group, model := range g.model {
		c := after.counts(group)
		if n := c["acked"] + c["dead"] + c["dropped"] + c["cancelled"]; n != model.gone {
			fail("%d left %s, and its head says %v", model.gone, group, c)
		}
		if is := c["complete"] > 0; is != model.complete && (model.complete || what != "carry" || after.left(group, c["go"] > 0) > 0) {
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
		switch came := !now.waits(); { // also in the call that ends the last one: its copying settles groups
		case came && strings.HasPrefix(what, "reschedule "+member):
		case came && (after.left(m.AfterGroup, goes) > 0 || what != "carry" || !model.complete):
			fail("%s came by %s, and %d of %s were left", member, what, left, m.AfterGroup)
		case came:
			wrong = append(wrong, countsIn(now, after, m.AfterGroup)...)
		case what == "carry" && left == 0:
			fail("%s waits for %s, of which nobody is left", member, m.AfterGroup)
		}
	}
	return wrong
}

// copies reports whether there are copies of a message.
func (v groupView) copies(member string, m heldMessage) bool {
	topic, _, _ := strings.Cut(member, ":")
	for other, one := range v.messages {
		if strings.HasPrefix(other, topic+"@") && string(one.Body) == string(m.Body) {
			return true
		}
	}
	return false
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
