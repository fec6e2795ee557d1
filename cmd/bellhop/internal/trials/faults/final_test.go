package faults_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/faults/history"
	"github.com/bellhopd/bellhop/daemon/doctor/repair"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
)

// examine returns an error if the doctor finds anything to repair.
func (w *world) examine(ctx context.Context) error {
	var found []string
	_, err := repair.Run(ctx, w.store, repair.Options{}, func(f repair.Finding) {
		found = append(found, f.String())
	})
	if err == nil && len(found) > 0 {
		err = fmt.Errorf("the doctor finds: %s", strings.Join(found, "; "))
	}
	return err
}

// mend repairs what a withdrawn right left half done: a call under way then stopped in the
// middle of its script.
func (w *world) mend(ctx context.Context) error {
	_, err := repair.Run(ctx, w.store, repair.Options{Apply: true}, func(repair.Finding) {})
	return err
}

// final reads the contents of Redis, which no process may change meanwhile.
func (w *world) final(ctx context.Context) (history.Final, error) {
	r := &reader{ctx: ctx, store: w.store, client: w.store.Client()}
	f := history.Final{
		Now: r.now(), Heads: map[string]int64{}, ReadySet: map[string]int64{},
		Scheduled: map[string]map[string]int64{}, Ready: map[string]map[string]int64{}, Blocked: map[string]map[string]int64{}, Dead: map[string]map[string]int64{},
		Leased: map[string]int64{}, Broadcasts: map[string]int64{}, Expiries: map[string]int64{}, Attempts: map[string]int64{},
		Leases: map[string]int64{}, Waiting: map[string]int64{}, Streams: w.nats != nil,
		Versions: map[string]string{}, Next: map[string]string{}, Dropped: map[string]int64{}, Done: map[string]string{},
		Archive: w.database != nil, Acked: []string{ackedTopic},
	}
	all := r.keys()
	for number, keys := range w.store.KeysOfAll() {
		r.number, r.base = number, keys.Base()
		of := func(key string) bool { return strings.HasPrefix(key, r.base) }
		for _, key := range all {
			if of(key) {
				r.read(&f, strings.TrimPrefix(key, r.base))
			}
		}
		all = slices.DeleteFunc(all, of)
	}
	for _, key := range all {
		if w.cluster == nil || key != rootFormat {
			f.Foreign = append(f.Foreign, key)
		}
	}
	return f, r.err
}

// rootFormat is the only key outside of shards, where there are several.
const rootFormat = script.DefaultPrefix + ":{0}:format"

// read reads a key of a shard.
func (r *reader) read(f *history.Final, name string) {
	kind, topic, _ := strings.Cut(name, ":")
	if topic != "" && strings.Contains(" scheduled ready line dead log grouped groups ", " "+kind+" ") {
		r.belongs(f, topic, name)
	}
	switch kind {
	case "scheduled":
		if topic == "" {
			maps.Copy(f.Heads, r.sorted(name))
		} else {
			f.Scheduled[topic] = r.sorted(name)
		}
	case "ready":
		if topic == "" {
			maps.Copy(f.ReadySet, r.sorted(name))
		} else {
			f.Ready[topic] = r.sorted(name)
		}
	case "line":
		f.Blocked[topic] = r.line(topic)
	case "dead":
		f.Dead[topic] = r.sorted(name)
	case "leased":
		maps.Copy(f.Leased, r.sorted(name))
	case "broadcasts":
		maps.Copy(f.Broadcasts, r.sorted(name))
	case "expiries":
		maps.Copy(f.Expiries, r.sorted(name))
	case "messages":
		r.records(f, name)
	case "grouped":
		for id := range r.sorted(name) {
			switch branch, of, isCopy := strings.Cut(id, ":"); {
			case topic == "": // the index
			case isCopy && strings.HasPrefix(branch, "@"):
				f.Grouped = append(f.Grouped, record.Member(topic+branch, of))
			default:
				f.Grouped = append(f.Grouped, record.Member(topic, id))
			}
		}
	case "extras":
		maps.Copy(f.Next, r.successors(name))
	case "deaths":
		f.Deaths = append(f.Deaths, r.fields(name)...)
	case "attempts":
		maps.Copy(f.Attempts, r.used(name))
	case "topics":
		r.counters(f, name)
	case "log":
		f.Logs = append(f.Logs, r.log(topic)...)
	case "format", "carrier", "epoch", "waiting", "logs", "listeners", "places", "bridge", "secret", "logouts", "room", "mark", "taken",
		"topics-seen", "topics-names", "topics-busy", "deaths-oldest", "deaths-newest", "deaths-kept", "lateness", "history-seconds", "history-minutes",
		"claims", "workers", "keyed", "keys", "seats", "heads", "slots", "done", "done-first", "hooks", "endings", "standbys",
		"pushes", "schedules", "schedules-due", "rules", "relayed", "groups":
	case "alarms":
		for entry := range r.sorted(name) {
			if !strings.HasPrefix(entry, "/") { // a topic that used up its rate, for which nobody rings any more
				f.Foreign = append(f.Foreign, fmt.Sprintf("%s%s: %s", r.base, name, entry))
			}
		}
	case "extended": // which goes by itself, also where its message went before
		if !r.goes(name) {
			f.Foreign = append(f.Foreign, r.base+name+" without a time to live")
		}
	default:
		f.Foreign = append(f.Foreign, r.base+name)
	}
}

// A reader reads the keys of shards, up to the first error.
type reader struct {
	ctx    context.Context
	store  *notify.Store
	client redis.UniversalClient
	number int    // of the present shard
	base   string // of its keys
	err    error
}

// belongs takes what is in a shard other than that of its topic for foreign.
func (r *reader) belongs(f *history.Final, topic, what string) {
	if r.store.Of(topic).Number() != r.number {
		f.Foreign = append(f.Foreign, fmt.Sprintf("%s in shard %d", what, r.number))
	}
}

func got[T any](r *reader, value T, err error) T {
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("read what redis holds: %w", err)
	}
	return value
}

// goes reports whether a key goes by itself, or is gone.
func (r *reader) goes(name string) bool {
	left, err := r.client.PTTL(r.ctx, r.base+name).Result()
	return got(r, left, err) != -1 // which says that it has no time to live
}

func (r *reader) now() int64 {
	t, err := r.client.Time(r.ctx).Result()
	return got(r, t, err).UnixMilli()
}

func (r *reader) keys() []string {
	const all = script.DefaultPrefix + ":*"
	cluster, isCluster := r.client.(*redis.ClusterClient)
	if !isCluster {
		keys, err := r.client.Keys(r.ctx, all).Result()
		return got(r, keys, err)
	}
	var one sync.Mutex
	var keys []string
	err := cluster.ForEachMaster(r.ctx, func(ctx context.Context, node *redis.Client) error {
		some, err := node.Keys(ctx, all).Result()
		one.Lock()
		defer one.Unlock()
		keys = append(keys, some...)
		return err
	})
	return got(r, keys, err)
}

func (r *reader) fields(key string) []string {
	fields, err := r.client.HKeys(r.ctx, r.base+key).Result()
	return got(r, fields, err)
}

// records reads which messages have a record, and the versions in the bodies. The record of
// one that is done begins with =, and an object if it is kept.
func (r *reader) records(f *history.Final, key string) {
	all, err := r.client.HGetAll(r.ctx, r.base+key).Result()
	for member, record := range got(r, all, err) {
		topic, _, _ := strings.Cut(member, ":")
		r.belongs(f, topic, member)
		if head, result, _ := strings.Cut(record, "\n"); strings.HasPrefix(head, "=") {
			if strings.Contains(head, ",") {
				f.Done[member] = result
			}
			continue
		}
		f.Records = append(f.Records, member)
		if version := versionIn(member, record); version != "" {
			f.Versions[member] = version
		}
	}
}

// successors reads the versions of successors, whose records stand behind a line of numbers.
func (r *reader) successors(key string) map[string]string {
	next := make(map[string]string)
	all, err := r.client.HGetAll(r.ctx, r.base+key).Result()
	for member, noted := range got(r, all, err) {
		if _, record, ok := strings.Cut(noted, "\n"); ok {
			next[member] = versionIn(member, record)
		}
	}
	return next
}

// versionIn returns the version in the record of a member.
func versionIn(member, record string) string {
	topic, _, _ := strings.Cut(member, ":")
	_, body, _ := strings.Cut(record, "\n")
	return versionOf(topic, []byte(body))
}

// used reads how many attempts messages used up. Their history stands behind that.
func (r *reader) used(key string) map[string]int64 {
	all, err := r.client.HGetAll(r.ctx, r.base+key).Result()
	numbers := make(map[string]int64)
	for member, value := range got(r, all, err) {
		text, _, _ := strings.Cut(value, "\n")
		numbers[member] = r.integer(text)
	}
	return numbers
}

func (r *reader) integer(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	return got(r, n, err)
}

// counters reads the counters of leases and broadcasts from the hash of topics.
func (r *reader) counters(f *history.Final, key string) {
	all, err := r.client.HGetAll(r.ctx, r.base+key).Result()
	for field, text := range got(r, all, err) {
		switch topic, what, _ := strings.Cut(field, ":"); what {
		case "leased":
			f.Leases[topic] = r.integer(text)
		case "broadcasts":
			f.Waiting[topic] = r.integer(text)
		case "dropped":
			f.Dropped[topic] = r.integer(text)
		}
	}
}

func (r *reader) sorted(key string) map[string]int64 {
	all, err := r.client.ZRangeWithScores(r.ctx, r.base+key, 0, -1).Result()
	members := make(map[string]int64)
	for _, z := range got(r, all, err) {
		members[z.Member.(string)] = int64(z.Score)
	}
	return members
}

// line reads the due times of messages in a line, of which each entry is key, due time and id.
func (r *reader) line(topic string) map[string]int64 {
	members := make(map[string]int64)
	for entry := range r.sorted("line:" + topic) {
		if parts := strings.Split(entry, "\x00"); len(parts) == 3 {
			members[record.Member(topic, parts[2])] = r.integer(parts[1])
		}
	}
	return members
}

// log reads the broadcasts that a topic's log keeps.
func (r *reader) log(topic string) (entries []history.Entry) {
	all, err := r.client.XRange(r.ctx, r.base+"log:"+topic, "-", "+").Result()
	for _, one := range got(r, all, err) {
		at, err := record.ParsePosition(one.ID)
		id, _ := one.Values["id"].(string)
		entries = append(entries, history.Entry{Topic: topic, ID: id, Position: int64(got(r, at, err))})
	}
	return entries
}
