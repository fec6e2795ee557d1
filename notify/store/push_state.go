package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
)

var triedScript = script.New("tried")

// PushTried notes what the failing endpoint of a push answered, and after which pause the caller asks it again, in the shard that is Home.
// A push that does not fail stays as it is. The error is that of the connection.
func (s Shard) PushTried(ctx context.Context, name string, pause time.Duration, answer string) error {
	return s.notePush(ctx, name, pause, answer, 0)
}

// ClosePush notes that the endpoint of a push wants no request for some time, and with which answer it said so, in the shard that is Home: all
// daemons hear of that. One that is closed for longer stays so. The error is that of the connection.
func (s Shard) ClosePush(ctx context.Context, name string, pause time.Duration, answer string) error {
	return s.notePush(ctx, name, pause, answer, 1)
}

// PushStored notes that nobody listens on the subject of a push to NATS, and which stream stores what is sent there, or with a stream that is
// empty that none does any more, in the shard that is Home: all daemons hear of that. The error is that of the connection.
func (s Shard) PushStored(ctx context.Context, name, subject, stream string) error {
	if stream == "" {
		subject = ""
	}
	return s.notePush(ctx, name, 0, subject+" "+stream, 2)
}

func (s Shard) notePush(ctx context.Context, name string, pause time.Duration, answer string, closes int) error {
	r, err := s.Run(ctx, triedScript, name, record.CeilMs(pause), answer, closes)
	if err != nil {
		return fmt.Errorf("note a try of the push %s: %w", name, err)
	}
	_ = r.Integer()
	return r.End()
}

// tried fills in what tried.lua noted: of a push to NATS a stream, of an endpoint that fails its last try, of any other that it is closed, if
// it still is, and the clock was not set back since: it may have been over. It fills in nothing if that is foreign.
func (p *Push) tried(text string, now time.Time) {
	times, answer, whole := strings.Cut(text, " ")
	ms, since, _ := strings.Cut(times, "-")
	switch at := record.TimeOf(ms).UTC(); {
	case !whole || at.IsZero():
	case p.IsNATS():
		if subject, stream, _ := strings.Cut(answer, " "); stream != "" {
			p.Stored = map[string]string{subject: stream}
		}
	case p.Failing != nil:
		p.Failing.Next, p.Failing.Answer = at, answer
	case at.After(now) && !record.TimeOf(since).After(now):
		p.Closed = &PushClosure{Until: at, Answer: answer, Left: at.Sub(now)}
	}
}

// NoteUnsent notes in pushes whether a daemon runs that sends pushes to URLs, or to NATS, as each of them asks for. Whether its net is allowed
// is known to that daemon alone. The error is that of the connection to the shard that is Home.
func (s Shard) NoteUnsent(ctx context.Context, pushes []Push) error {
	sent := make(map[bool]bool, 2)
	for i := range pushes {
		p := &pushes[i]
		if _, known := sent[p.IsNATS()]; !known {
			n, err := s.store.Listening(ctx, s.PushersChannel(p.IsNATS()))
			if err != nil {
				return err
			}
			sent[p.IsNATS()] = n > 0
		}
		p.Unsent = !sent[p.IsNATS()]
	}
	return nil
}

// PushTopics returns the topics of a push of messages, in order: those that it names, and those that there are of its patterns. Of very many it
// returns some, and reports that these are not all. Errors: that of the connection; a MissingError beside the topics of other shards.
func PushTopics(ctx context.Context, s *Store, p *Push) (topics []string, all bool, err error) {
	const most = 1000 // names that are read of a shard
	var patterns []record.Pattern
	for _, text := range p.Topics {
		pattern, err := record.ParsePattern(text)
		if err != nil {
			return nil, false, err
		}
		if topic, one := pattern.Topic(); one {
			topics = append(topics, topic)
		} else {
			patterns = append(patterns, pattern)
		}
	}
	if all = true; len(patterns) > 0 {
		var found [][]string
		found, err = Gather(ctx, s, func(ctx context.Context, shard Shard) ([]string, error) {
			return shard.TopicNames(ctx, most, record.NamesOf(patterns))
		})
		for _, names := range found {
			all = all && len(names) < most
			topics = append(topics, slices.DeleteFunc(names, func(name string) bool {
				return !slices.ContainsFunc(patterns, func(p record.Pattern) bool { return p.Takes(name) })
			})...)
		}
	}
	slices.Sort(topics)
	return slices.Compact(topics), all, err
}

// PushLeased returns how many messages of the topics of a push are leased, or how many broadcasts are to the name under which it listens:
// to the daemons, and to any other worker; nil where that is not known, since it has very many topics, or beside a MissingError. Errors: that of
// the connection, or a MissingError.
func PushLeased(ctx context.Context, s *Store, p *Push) (*int64, error) {
	parts, err := pushLeased(ctx, s, p)
	if err != nil || parts == nil {
		return nil, err
	}
	sum := int64(0)
	for _, n := range parts {
		sum += n
	}
	return &sum, nil
}

// pushLeased returns how many are leased in each shard that has some; nil where there are too many topics.
func pushLeased(ctx context.Context, s *Store, p *Push) ([]int64, error) {
	if p.Broadcasts {
		return Gather(ctx, s, func(ctx context.Context, shard Shard) (int64, error) {
			var of ListenerProgress
			err := shard.owners(ctx, p.Listener(), &of)
			return of.Held, err
		})
	}
	topics, all, err := PushTopics(ctx, s, p)
	if err != nil || !all {
		return nil, err
	}
	in := make(map[Shard][]string, 1)
	for _, topic := range topics {
		shard, err := s.ShardOf(ctx, topic)
		if err != nil {
			return nil, err
		}
		in[shard] = append(in[shard], topic)
	}
	parts, err := GatherFrom(ctx, slices.Collect(maps.Keys(in)), func(ctx context.Context, shard Shard) (sum int64, err error) {
		all, err := shard.Topics(ctx, in[shard])
		for _, one := range all {
			sum += one.Leased
		}
		return sum, err
	})
	return append([]int64{0}, parts...), err
}
