package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
)

var (
	registerScript   = script.New("register", script.Promised)
	unregisterScript = script.New("unregister", script.Promised)
	takeScript       = script.New("take")
	holdScript       = script.New("hold")
	ownersScript     = script.New("owners")
)

// A Registration is the entry of a named listener in a shard. The first shard has one of
// every name, any other of those that it has broadcasts for.
type Registration struct {
	Text    string          // all of it, as the shard holds it
	Pattern string          // of the topics
	From    string          // where it begins, in words
	Began   record.Position // when the name was registered, by the clock of the first of several shards
	Start   record.Position // behind which it begins
	Floor   record.Position // up to which it misses nothing
	StoreID string          // the store in which it was registered
}

// parseRegistration reads a registration as register.lua writes it.
func parseRegistration(text string) (Registration, error) {
	f := strings.Fields(text)
	if len(f) < 5 || len(f) > 6 {
		return Registration{}, fmt.Errorf("registration %.200q is foreign: it should be a pattern, a beginning, its positions and the id of a store", text)
	}
	r := Registration{Text: text, Pattern: f[0], From: f[1], StoreID: f[len(f)-1]}
	if len(f) == 6 {
		r.Began = record.PositionIn(f[2])
	}
	r.Start, r.Floor = record.PositionIn(f[len(f)-3]), record.PositionIn(f[len(f)-2])
	return r, nil
}

// ErrNoListener is the error of a named listener that does not exist, or was removed.
var ErrNoListener = errors.New("no such listener")

// Register registers a named listener in a shard, unless it is registered there already,
// that of a push with the same pattern: its Pattern, and where it begins in words and behind which position. That is the end
// of the shard's logs, if they end before. In other shards than the first the registration
// there says when the name Began. Register returns the registration that holds, and the
// time by the shard's clock as a position. The error is that of the connection, says
// that the registration is foreign, or is an ErrNoListener: the name would be that of a
// push that is not there.
func (s Shard) Register(ctx context.Context, name string, wanted Registration) (registered Registration, now record.Position, err error) {
	push := ""
	if s == s.store.Home() {
		push = pushListening(name)
	}
	args := []any{name, wanted.Pattern, wanted.From, int64(wanted.Start), push}
	if wanted.Began > 0 {
		args = append(args, int64(wanted.Began))
	}
	r, err := s.Run(ctx, registerScript, args...)
	if err != nil {
		return Registration{}, 0, err
	}
	if r.Left() == 0 && r.End() == nil {
		return Registration{}, 0, fmt.Errorf("names that begin with %s are those of pushes, and no push %s sends the broadcasts of %s; use another name: %w", pushListener, push, wanted.Pattern, ErrNoListener)
	}
	text := r.Text()
	now = r.Position()
	if err := r.End(); err != nil {
		return Registration{}, 0, err
	}
	registered, err = parseRegistration(text)
	return registered, now, err
}

// Unregister removes a named listener from all shards, from the first one last: so a name
// is listed until it is gone. It reports whether there was one. The error joins those of
// the connections; then it is to be called again.
func (s *Store) Unregister(ctx context.Context, name string) (there bool, err error) {
	if err := s.unregisterElsewhere(ctx, name); err != nil {
		return false, err
	}
	return s.Home().Unregister(ctx, name)
}

// unregisterElsewhere removes a named listener from all shards but the first. The error joins those of the connections.
func (s *Store) unregisterElsewhere(ctx context.Context, name string) error {
	shards, err := s.Shards(ctx)
	if err != nil {
		return err
	}
	errs := make([]error, len(shards))
	reach.AtOnce(len(shards)-1, func(i int) { _, errs[i+1] = shards[i+1].Unregister(ctx, name) })
	return errors.Join(errs...)
}

// Unregister removes a named listener from a shard, its places and its leases. It reports whether
// there was one. The error is that of the connection.
func (s Shard) Unregister(ctx context.Context, name string) (there bool, err error) {
	r, err := s.Run(ctx, unregisterScript, name)
	if err != nil {
		return false, err
	}
	there = r.Flag()
	return there, r.End()
}

// A Take is what a process of a named listener asks for, and which broadcasts it
// settles.
type Take struct {
	Name         string
	Registration string        // its text
	Worker       string        // name of the process; empty: unknown
	Lease        time.Duration // cut to the millisecond
	Max          int           // most broadcasts to hand out
	Topics       []string      // topics whose logs may hold more
	Acked        []string      // members of broadcasts that were handled; they count even if their lease ended
	Back         []Unhandled   // broadcasts that are released: they are handed out first
}

// An Unhandled is a leased broadcast that is released. The receipt is in ms.
type Unhandled struct {
	Lease
	Failed int // attempts that failed since it was handed out
}

// LeasedMember returns the name of a broadcast among a named listener's leases.
func LeasedMember(topic string, position record.Position) string {
	return strconv.FormatInt(int64(position), 10) + " " + topic
}

// Member returns the name of a gap among a named listener's leases.
func (g LogGap) Member() string {
	if g.UpTo-g.After == 1 {
		return LeasedMember(g.Topic, g.UpTo)
	}
	return strconv.FormatInt(int64(g.After), 10) + "-" + LeasedMember(g.Topic, g.UpTo)
}

// TakeResult is the result of a take.
type TakeResult struct {
	Gone    bool   // the registration is gone: nothing was handed out
	Changed bool   // if Gone: the name has another one, so what was asked for was settled
	StoreID string // if Gone: the id of the store

	Until      int64 // the end of the lease in ms, and the receipt of each broadcast
	Broadcasts []TakeEntry
	Gaps       []LogGap // leased as the broadcasts are
	More       []string // topics whose logs may hold more
}

// A TakeEntry is a broadcast that was handed out.
type TakeEntry struct {
	Topic   string
	Attempt int // 1 for the first
	Entry
}

// A LogGap is a range in which broadcasts of a topic were trimmed before they were
// handed out.
type LogGap struct {
	Topic       string
	Attempt     int // 1 for the first
	After, UpTo record.Position
}

// Take acknowledges and releases broadcasts of a process of a named listener, then
// hands out others: first those whose lease ended, then those behind its places in
// the logs. The error is that of the connection, after which broadcasts may be
// leased until the lease ends.
func (s Shard) Take(ctx context.Context, t Take) (TakeResult, error) {
	r, err := s.Run(ctx, takeScript, t.args()...)
	if err != nil {
		return TakeResult{}, err
	}
	if r.Left() == 2 {
		got := TakeResult{Gone: true, StoreID: r.StoreID(), Changed: r.Flag()}
		return got, r.End()
	}
	got := TakeResult{Until: r.Integer(), Broadcasts: takenIn(r), Gaps: gapsIn(r), More: r.Texts()}
	return got, r.End()
}

// args returns the arguments of take.lua.
func (t Take) args() []any {
	leases, failed := make([]Lease, len(t.Back)), make([]any, len(t.Back))
	for i, one := range t.Back {
		leases[i], failed[i] = one.Lease, one.Failed
	}
	args := withMembers(t.Acked, t.Name, t.Registration, t.Worker, t.Lease.Milliseconds(), t.Max, len(t.Acked), len(t.Back))
	return withMembers(t.Topics, append(withLeases(leases, args...), failed...)...)
}

// takenIn reads a list of broadcasts that are handed out.
func takenIn(r *script.Reply) []TakeEntry {
	list := r.List()
	all := make([]TakeEntry, 0, list.Left())
	var one, entry, fields script.Reply // each serves all broadcasts
	for list.More() {
		list.ListInto(&one)
		t := TakeEntry{Topic: one.Text(), Attempt: int(one.Integer())}
		one.ListInto(&entry)
		t.Entry = entryIn(&entry, &fields)
		_ = one.End()
		all = append(all, t)
	}
	return all
}

// gapsIn reads a list of gaps.
func gapsIn(r *script.Reply) (all []LogGap) {
	list := r.List()
	for list.More() {
		one := list.List()
		all = append(all, LogGap{one.Text(), int(one.Integer()), one.Position(), one.Position()})
		_ = one.End()
	}
	return all
}

// Hold extends the leases of broadcasts of a process of a named listener, which is the worker
// of that name. It returns their new receipt, the end of the lease in ms, and the indexes of
// those whose lease is lost. The error is that of the connection.
func (s Shard) Hold(ctx context.Context, name, worker string, leases []Lease, lease time.Duration) (until int64, lost []int, err error) {
	r, err := s.Run(ctx, holdScript, withLeases(leases, name, worker, lease.Milliseconds())...)
	if err != nil {
		return 0, nil, err
	}
	until, lost = r.Integer(), r.Indexes(len(leases))
	return until, lost, r.End()
}

// A Listener is a named listener with its registration.
type Listener struct {
	Name string
	Registration
}

// Listeners returns all named listeners. The error is that of the connection, an
// ErrUnfit for a store of another format, or says which registration is foreign.
func (s Shard) Listeners(ctx context.Context) ([]Listener, error) {
	if err := s.CheckFormat(ctx); err != nil {
		return nil, err
	}
	texts, err := reach.Read(ctx, s.Shard, func(r redis.UniversalClient, k script.Keys) (map[string]string, error) {
		return r.HGetAll(ctx, k.Listeners()).Result()
	})
	if err != nil {
		return nil, err
	}
	all := make([]Listener, 0, len(texts))
	for name, text := range texts {
		r, err := parseRegistration(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, Listener{name, r})
	}
	return all, nil
}

// ListenerNames returns the names of all named listeners, including those with a
// foreign registration. The error is that of the connection.
func (s Shard) ListenerNames(ctx context.Context) ([]string, error) {
	return reach.Read(ctx, s.Shard, func(r redis.UniversalClient, k script.Keys) ([]string, error) {
		all, err := r.HGetAll(ctx, k.Listeners()).Result() // HKEYS is none of the least rights
		return slices.Collect(maps.Keys(all)), err
	})
}

// ListenerProgress is how far a named listener has come.
type ListenerProgress struct {
	Held   int64                      // broadcasts that are leased
	Owners []Owner                    // which workers have them, by name
	Places map[string]record.Position // by topic: of the last broadcast that was handed out
	Active bool                       // a process listens under the name
}

// An Owner is a worker that has broadcasts of a named listener.
type Owner struct {
	Worker string    `json:"worker" example:"shop-1" doc:"name of the worker"`
	Held   int64     `json:"held" doc:"broadcasts that it has"`
	Topic  string    `json:"topic" example:"prices.gold" doc:"topic of the first of them that was sent"`
	Sent   time.Time `json:"sent" doc:"when that was sent, by the clock of Redis"`
}

// mostOwned is how many leases of a named listener are looked at to see which workers have
// them: that takes Redis less than a millisecond.
const mostOwned = 500

// Progress returns how far a named listener has come. Of very many leases only those that end
// last are looked at for their owners. The error is that of the connection.
func (s Shard) Progress(ctx context.Context, name string) (p ListenerProgress, err error) {
	if err := s.owners(ctx, name, &p); err != nil {
		return p, err
	}
	if p.Places, err = s.places(ctx, name); err != nil {
		return p, err
	}
	listening, err := s.store.Listening(ctx, s.NameChannel(name))
	p.Active = listening > 0
	return p, err
}

// places returns the places of a named listener by topic.
func (s Shard) places(ctx context.Context, name string) (map[string]record.Position, error) {
	places := make(map[string]record.Position)
	for cursor := uint64(0); ; {
		found, err := reach.Read(ctx, s.Shard, func(r redis.UniversalClient, k script.Keys) (scanned, error) {
			return scannedBy(r.HScan(ctx, k.Places(name), cursor, "", scanPage))
		})
		if err != nil {
			return nil, err
		}
		for i := 0; i+1 < len(found.page); i += 2 {
			places[found.page[i]] = record.PositionIn(found.page[i+1])
		}
		if cursor = found.next; cursor == 0 {
			return places, nil
		}
	}
}

// owners fills in what a named listener has leased, and which workers have it.
func (s Shard) owners(ctx context.Context, name string, p *ListenerProgress) error {
	r, err := s.Run(ctx, ownersScript, name, mostOwned)
	if err != nil {
		return err
	}
	p.Held = r.Integer()
	for r.More() {
		worker, held, member := r.Text(), r.Integer(), r.Text()
		position, topic, _ := strings.Cut(member, " ")
		if record.CheckWorker("worker", worker) == nil && record.CheckAnyTopic(topic) == nil { // else it is foreign
			p.Owners = append(p.Owners, Owner{Worker: worker, Held: held, Topic: topic, Sent: record.PositionIn(position).Time().UTC()})
		}
	}
	slices.SortFunc(p.Owners, func(a, b Owner) int { return cmp.Compare(a.Worker, b.Worker) })
	return r.End()
}
