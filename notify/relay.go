package notify

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify/store"
)

// A RelayRow is a message that stands in a row of an outbox, where IfExists is Keep if nothing is said.
type RelayRow struct {
	Message
	Row store.Row
	Age time.Duration // since the row was written, by the clock of the database: so much less of the delay is left
}

// Relay publishes messages of rows, those of a topic in their order, for a relay that began at their shard, which is the same for all: up to 500
// in one call. Those of a key become claimable in their order, too, whatever their ids: if they do not ascend, Relay makes more calls, a
// store.Tick apart. It returns a result for each. Its outcome is empty if there is none, for the error that Relay returns, too: then what became of
// the message is learned by beginning again. Any other error is about that message, which would be refused again.
func (p *Publisher) Relay(ctx context.Context, shard store.Shard, r store.Relay, rows []RelayRow) ([]Result, error) {
	results := make([]Result, len(rows))
	batch := make([]*outgoing, 0, len(rows))
	of := make(map[*outgoing]int, len(rows))
	for i := range rows {
		out, err := p.prepare(rows[i].Message)
		if err == nil {
			err = p.checkShard(ctx, shard, &out.Message)
		}
		if err != nil {
			results[i] = refusedBy(&rows[i].Message, err)
			results[i].Outcome = Refused
			continue
		}
		out.keep()
		of[out], batch = i, append(batch, out)
	}
	var err error
	for i, part := range ascending(batch) {
		if i > 0 {
			time.Sleep(store.Tick)
		}
		if err = calls(part, func(some []*outgoing) error { return p.relay(ctx, shard, r, rows, some, of) }); err != nil {
			break
		}
	}
	for _, out := range batch {
		results[of[out]] = out.result
	}
	return results, err
}

// ascending parts messages so that the ids ascend of those in a part that have one key. Those of a topic stay in their order.
func ascending(batch []*outgoing) (parts [][]*outgoing) {
	type place struct {
		part int
		id   string
	}
	of := make(map[string]int)        // the part of a topic
	last := make(map[[2]string]place) // of a key of a topic
	for _, out := range batch {
		name := [2]string{out.Topic, out.Key}
		if before, is := last[name]; is && before.part == of[out.Topic] && out.ID < before.id {
			of[out.Topic]++
		}
		n := of[out.Topic]
		if out.Key != "" {
			last[name] = place{n, out.ID}
		}
		if n == len(parts) {
			parts = append(parts, nil)
		}
		parts[n] = append(parts[n], out)
	}
	return parts
}

// keep has a message of which nothing is said keep the one that is there. Without an As it does so where that its id is in use is no refusal.
func (out *outgoing) keep() {
	if out.IfExists == "" {
		out.IfExists = Keep
	}
	if as := out.as(); as != nil && *as == (store.As{IfExists: Keep}) {
		out.IfExists = ""
	}
}

// calls calls f with the messages of each call, until one fails.
func calls(batch []*outgoing, f func([]*outgoing) error) error {
	for len(batch) > 0 {
		plain, as, rest := split(batch, func(out *outgoing) string { return out.Topic })
		for _, some := range append([][]*outgoing{plain}, slices.Collect(slices.Chunk(as, asItems))...) {
			if len(some) == 0 {
				continue
			}
			if err := f(some); err != nil {
				return err
			}
		}
		batch = rest
	}
	return nil
}

// relay publishes the messages of a call. If that meets a foreign key, which may be of one topic, each of them gets a call of its own.
func (p *Publisher) relay(ctx context.Context, shard store.Shard, r store.Relay, rows []RelayRow, batch []*outgoing, of map[*outgoing]int) error {
	call := make([]store.Relayed, len(batch))
	for i, out := range batch {
		row := &rows[of[out]]
		call[i] = store.Relayed{Publish: out.publish(), Row: row.Row, Kept: (row.IfExists == "" || row.IfExists == Keep) && row.Then == ""}
		if row.Due.IsZero() && row.AfterGroup == "" {
			call[i].When = call[i].When.After(row.Age)
		}
	}
	placed, err := shard.Relay(ctx, r, call)
	switch {
	case err == nil:
		for i, out := range batch {
			out.result = resultOf(&out.Message, placed[i])
		}
	case !redis.HasErrorPrefix(err, "WRONGTYPE"):
		return batch[0].failed(err).Err
	case len(batch) == 1:
		batch[0].result = batch[0].failed(err)
		batch[0].result.Outcome = Refused
	default:
		for _, out := range batch {
			if err := p.relay(ctx, shard, r, rows, []*outgoing{out}, of); err != nil {
				return err
			}
		}
	}
	return nil
}
