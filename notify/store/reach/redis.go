package reach

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify/store/script"
)

// A Redis is one Redis, or one Cluster of it, and one prefix in it. It is safe for
// concurrent use.
type Redis struct {
	client redis.UniversalClient
	prefix string
	where  string // the address, for errors
	at     string // what the names of channels begin with in Redis: see Heard
	wanted int    // shards that Config asks for; 0: as many as the store has

	formats []Format // that calls may be of, oldest first

	database int                      // of Redis; a Cluster has only 0
	root     *shard                   // what holds the format key; of a store of one shard its only one
	laid     atomic.Pointer[[]*shard] // all shards; nil: their number is not known yet
	learning *fitCheck                // of that number; guarded by background.mu

	replicas    int           // that must confirm a promised call
	share       int           // of maxmemory, in percent: above it publishes are refused
	beat        time.Duration // the longest time between two beats
	silence     time.Duration // after which a subscription is taken for dead
	stirred     chan struct{} // of a calm store: something was done; else nil
	connections connections

	background background
	sentinels  sentinels
	wires      wires
	ways       ways
	renewal    renewal

	clock clock

	observe func(script string, took time.Duration, err error) // nil: nobody does
}

// Open returns the Redis that c describes. It does not connect. The error joins a Fault
// for each field that is wrong, or whose file cannot be read.
func Open(c Config) (*Redis, error) { return open(c, Heartbeat, 0) }

// OpenCalm is Open for a Redis in the memory of a test, in which years pass. Its carriers beat that rarely: they find with Stirred what
// they find with a beat elsewhere, such as when the lease of a claim ends. They end a rest without a spin, in which the time of a bubble
// would stand still.
func OpenCalm(c Config, beat time.Duration) (*Redis, error) {
	s, err := open(c, beat, calmPool)
	if err == nil {
		s.stirred = make(chan struct{}, 1)
	}
	return s, err
}

// calmPool is how many connections a calm store may have: so many that no call waits for one. go-redis takes the timer of such a wait
// from a pool, in which it may be of another bubble.
const calmPool = 100_000

// open opens a store with beats that far apart, and connections up to a number; zero: as go-redis has it.
func open(c Config, beat time.Duration, pool int) (*Redis, error) {
	o, err := c.read()
	if err != nil {
		return nil, err
	}
	prefix := cmp.Or(c.Prefix, script.DefaultPrefix)
	share, _ := memoryShare(c.MemoryShare)
	s := &Redis{prefix: prefix, wanted: c.Shards, formats: formats, where: RedactURLs(cmp.Or(c.URL, DefaultURL)), replicas: c.WaitReplicas, share: share, beat: beat, silence: 3 * beat}
	s.background.ctx, s.background.end = context.WithCancel(context.Background())
	o.PoolSize = pool
	s.connect(o, c.dialer(o))
	if !s.inCluster() {
		s.database, s.at = o.DB, sharedBy(o.DB)
	}
	s.root = s.newShard(0, layout{shards: 1}, "0")
	if c.Shards > 0 {
		s.lay(layout{shards: c.Shards})
	}
	return s, nil
}

// Context returns a context that ends when the store is closed.
func (s *Redis) Context() context.Context { return s.background.ctx }

// Close closes the connections. Calls that are still running on the store fail.
func (s *Redis) Close() error {
	s.background.close()
	defer s.background.tasks.Wait()
	return s.client.Close()
}

// Client returns the connection to Redis. It never repeats a call by itself.
func (s *Redis) Client() redis.UniversalClient { return s.client }

// Keys returns the names of the keys and channels of the first shard.
func (s *Redis) Keys() script.Keys { return s.known()[0].keys }

// KeysOf returns the names of the keys and channels of a topic's shard. The number of
// shards must be known.
func (s *Redis) KeysOf(topic string) script.Keys { return s.known()[s.Of(topic).number].keys }

// KeysOfAll returns the names of the keys and channels of each shard.
func (s *Redis) KeysOfAll() (all []script.Keys) {
	for _, d := range s.known() {
		all = append(all, d.keys)
	}
	return all
}

// Beat returns the longest time between two beats of a carrier of the store: more than Heartbeat if that is calm.
func (s *Redis) Beat() time.Duration { return s.beat }

// IsCalm reports whether the store was opened by OpenCalm.
func (s *Redis) IsCalm() bool { return s.stirred != nil }

// Stirred returns a channel that receives when something was done in a calm store by this process, other than by the loop of its
// carrier; nil if the store is not calm.
func (s *Redis) Stirred() <-chan struct{} { return s.stirred }

// Bear returns a bound on a silence or a rest: of a calm store one that is longer by three of its beats.
func (s *Redis) Bear(bound time.Duration) time.Duration { return bound + 3*(s.beat-Heartbeat) }

// BearSilence has subscriptions wait for so long for a beat, in place of Silence: for a test
// that holds back all that is published. Call BearSilence before the store is used.
func (s *Redis) BearSilence(longest time.Duration) { s.silence = longest }

// Address returns the address of Redis without its password.
func (s *Redis) Address() string { return s.where }

// Info returns the fields of INFO of the shard's server: of the named sections, or of the
// default ones. The error is that of the connection.
func (s Shard) Info(ctx context.Context, sections ...string) (map[string]string, error) {
	d, err := s.resolve(ctx)
	if err != nil {
		return nil, err
	}
	return d.info(ctx, sections...)
}

func (d *shard) info(ctx context.Context, sections ...string) (map[string]string, error) {
	ctx = context.WithValue(ctx, unrehearsed{}, true)
	fields, err := onNode(ctx, d, func(node redis.UniversalClient) (map[string]string, error) { return infoOf(ctx, node, sections...) })
	if err != nil {
		return nil, d.explain(ctx, err)
	}
	return fields, nil
}

// infoOf returns the fields of INFO of a server. A section that the server does not have has none: the
// trial server, which has few, refuses the others.
func infoOf(ctx context.Context, node redis.UniversalClient, sections ...string) (map[string]string, error) {
	info, err := node.Info(ctx, sections...).Result()
	if refusal(err, []string{"section ("}) {
		return nil, nil
	}
	return fieldsOf(info), err
}

// fieldsOf returns the fields of an INFO.
func fieldsOf(info string) map[string]string {
	fields := make(map[string]string)
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}

// Trouble returns why Redis cannot be used at the moment: the error of the last
// call, if Redis could not be reached, did not answer, took no calls, or did not
// let its user in. It is nil if the last script was answered, and before the first. Of
// several shards all that were called are in trouble, or it is nil.
func (s *Redis) Trouble() (err error) {
	all := s.laid.Load()
	if all == nil {
		return s.root.inTrouble()
	}
	for _, d := range *all {
		trouble := d.inTrouble()
		if trouble == nil && d.wasFit.Load() {
			return nil
		}
		err = cmp.Or(err, trouble)
	}
	return err
}

// inTrouble is Trouble for one shard.
func (d *shard) inTrouble() error {
	if err := d.trouble.Load(); err != nil {
		return *err
	}
	return nil
}

// PoolStats returns how many connections to Redis there are, and how they are used.
func (s *Redis) PoolStats() *redis.PoolStats {
	stats := s.client.PoolStats()
	stats.PubSubStats.Active += s.wires.connected()
	return stats
}

// explain adds to an error of the connection the address of Redis, the remedy for
// a missing right, and the error of ctx if that is the cause: the client reports
// only a timeout then.
func (d *shard) explain(ctx context.Context, err error) error {
	var known *ServerError
	if errors.As(err, &known) || errors.Is(err, ErrUnfit) {
		return err // of a call that explained it
	}
	err = d.refused(noRedis(err))
	cause := endOf(ctx)
	if errors.Is(cause, context.DeadlineExceeded) {
		d.prepare()
	}
	if cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	if errors.Is(err, context.Canceled) {
		return err
	}
	if Retryable(err) || LockedOut(err) {
		d.trouble.Store(&err)
	}
	return d.errorOf(err)
}

// errorOf returns an error of a call with where it was made.
func (d *shard) errorOf(err error) *ServerError {
	return &ServerError{Where: d.place(), Err: err, number: d.number, of: d.isSharded()}
}

// place returns the address of Redis, and which of several shards.
func (d *shard) place() string {
	if d.isSharded() {
		return d.where + ", shard " + d.String()
	}
	return d.where
}

// connect makes the client, which never repeats a call by itself: a script whose
// answer was lost would be applied twice. With Master it also sets up the sentinels
// that are watched for a new master.
func (s *Redis) connect(o *redis.UniversalOptions, dial dialer) {
	o.Dialer = s.connections.note(dial)
	o.OnConnect = s.onConnect
	switch {
	case o.MasterName != "":
		s.client = redis.NewFailoverClient(o.Failover())
		s.sentinels = sentinels{master: o.MasterName, options: sentinelOptions(o), connections: &s.connections}
	case len(o.Addrs) > 1:
		o.DialTimeout = clusterDialTimeout
		s.client = redis.NewClusterClient(o.Cluster())
	default:
		simple := o.Simple()
		if strings.HasPrefix(simple.Addr, "/") {
			simple.Network = "unix"
		}
		s.client = redis.NewClient(simple)
	}
}

// Heard returns the name that a channel, or a pattern of channels, of [script.Keys] has in Redis: in
// another database than 0 it begins with the number of that, such as 2@bellhop:wake:TOPIC.
func (s *Redis) Heard(channel string) string { return s.at + channel }
