package outbox

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/backoff"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
)

// Term moves what transactions committed into the store until ctx ends: it runs while this process's carrier is elected for the home
// of the store, and is made for carrier.Options.OnTerm. It logs when it cannot do so, and when it can again.
func (b *Outbox) Term(ctx context.Context, elected carrier.Term) {
	if elected.Shard != b.store.Home() {
		return
	}
	defer b.away.Reset()
	for ctx.Err() == nil {
		err := b.relay(ctx)
		if ctx.Err() == nil {
			b.failures.Add(1)
		}
		b.trouble.Wait(ctx, err)
	}
}

// relay moves rows over one connection until that fails, or ctx ends.
func (b *Outbox) relay(ctx context.Context) error {
	if err := b.store.Learn(ctx); err != nil {
		return err
	}
	c, err := b.connect(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	b.state.set(time.Now(), c.pooled)
	defer b.state.set(time.Time{}, false)
	defer c.beginning.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for ctx.Err() == nil {
		moved, err := c.pass(ctx)
		if err == nil && !moved {
			err = c.rest(ctx)
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// A part is what a relay knows of a shard.
type part struct {
	shard  store.Shard
	token  string          // of the beginning there; empty: it is yet to begin, and rows of the shard wait
	topics map[string]bool // of such rows, as far as they were met
	failed bool            // the last call there
	pause  backoff.Pause   // before it begins again; that grows until the shard takes rows
	last   time.Time       // when it began there, or the last call ended
}

// A beginning is a part where the relay has begun.
type beginning struct {
	*part
	token string
	taken []store.Row
}

// pass moves rows that wait into the store, as many as one look finds. It reports whether there were some.
func (c *link) pass(ctx context.Context) (moved bool, err error) {
	if err := c.begun(ctx); err != nil {
		return false, err
	}
	without := c.without()
	rows, err := c.look(ctx, c.floor.at, without)
	if err != nil {
		return false, err
	}
	c.trouble.Wait(ctx, nil)
	if err := c.raise(ctx, rows, len(without) == 0); err != nil || len(rows) == 0 {
		return false, err
	}
	if err := c.settle(ctx, rows, c.publish(ctx, rows)); err != nil {
		return false, err
	}
	return true, c.awake(ctx)
}

// begun deletes the rows that shards had taken where the relay has begun since, of which rows may be published then.
func (c *link) begun(ctx context.Context) error {
	for {
		select {
		case b := <-c.beginnings:
			if err := c.delete(ctx, b.taken); err != nil {
				return err
			}
			b.part.token, b.part.topics, b.part.last = b.token, nil, time.Now()
		default:
			return nil
		}
	}
}

// without returns topics of which no rows can be published yet.
func (c *link) without() []string {
	all := []string{} // none: a look would find nothing
	for _, p := range c.parts {
		for topic := range p.topics {
			all = append(all, topic)
		}
	}
	return all
}

// publish publishes what rows hold, to several shards side by side, and returns the results.
func (c *link) publish(ctx context.Context, rows []row) []notify.Result {
	c.batch++
	results := make([]notify.Result, len(rows))
	of := make(map[*part][]int)
	var parts []*part
	for i := range rows {
		if rows[i].fault != nil {
			results[i] = notify.Result{Publication: notify.Publication{Outcome: notify.Refused}, Err: rows[i].fault}
			continue
		}
		p := c.partOf(rows[i].Topic)
		if of[p] == nil {
			parts = append(parts, p)
		}
		of[p] = append(of[p], i)
	}
	errs := make([]error, len(parts))
	reach.AtOnce(len(parts), func(n int) {
		if p := parts[n]; p.token != "" {
			errs[n] = c.publishTo(ctx, p, rows, of[p], results)
		}
	})
	for n, p := range parts {
		switch {
		case p.token == "":
			c.leaveOut(ctx, p, rows, of[p])
		case errs[n] != nil:
			c.fail(ctx, p, errs[n])
			c.leaveOut(ctx, p, rows, of[p])
		default:
			p.failed = false
			p.pause.Reset()
			c.away.End(p.shard.Number())
		}
	}
	return results
}

// partOf returns the part of a topic.
func (c *link) partOf(topic string) *part {
	shard := c.store.Of(topic)
	p := c.parts[shard.Number()]
	if p == nil {
		p = &part{shard: shard}
		c.parts[shard.Number()] = p
	}
	return p
}

// publishTo publishes what some rows hold, all of one shard.
func (c *link) publishTo(ctx context.Context, p *part, rows []row, which []int, results []notify.Result) error {
	batch, keyed := make([]notify.RelayRow, len(which)), false
	for n, i := range which {
		batch[n] = rows[i].RelayRow
		keyed = keyed || batch[n].Key != ""
	}
	if keyed { // it may be due behind what the last call published, whatever its id
		time.Sleep(time.Until(p.last.Add(store.Tick)))
	}
	for n := range batch { // it waits since the look, too
		batch[n].Age += time.Since(c.looked)
	}
	got, err := c.pub.Relay(ctx, p.shard, store.Relay{Outbox: c.id, Token: p.token, Batch: c.batch}, batch)
	p.last = time.Now()
	for n, i := range which {
		results[i] = got[n]
	}
	return err
}

// fail notes that a call to a shard failed: whatever became of it, no other is made before the relay has begun there again.
func (c *link) fail(ctx context.Context, p *part, err error) {
	p.token, p.failed = "", true
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, store.ErrStale):
		c.stale.note(c.o.Logger, c.Address())
	default:
		c.away.Begin(p.shard.Number(), "error", err)
	}
}

// leaveOut has looks leave out the topics of rows until the relay has begun at their shard, which it does in the background.
func (c *link) leaveOut(ctx context.Context, p *part, rows []row, which []int) {
	if p.topics == nil {
		p.topics = make(map[string]bool)
		c.beginning.Go(func() { c.begin(ctx, p) })
	}
	for _, i := range which {
		p.topics[rows[i].Topic] = true
	}
}

// begin begins at a shard, and tries that until it can.
func (c *link) begin(ctx context.Context, p *part) {
	if p.failed {
		p.pause.Wait(ctx)
	}
	for ctx.Err() == nil {
		r := store.Relay{Outbox: c.id, Token: rand.Text()}
		taken, err := p.shard.BeginRelay(ctx, r)
		if err == nil {
			c.beginnings <- beginning{p, r.Token, taken}
			reach.Signal(c.news)
			return
		}
		if ctx.Err() == nil {
			c.away.Begin(p.shard.Number(), "error", err)
		}
		p.pause.Wait(ctx)
	}
}

// settle deletes the rows that were taken, and notes of others why they were refused. Rows without an outcome wait.
func (c *link) settle(ctx context.Context, rows []row, results []notify.Result) error {
	var taken, refused []store.Row
	var why []string
	kept := int64(0)
	for i := range results {
		switch r := &results[i]; r.Outcome {
		case "":
		case notify.Refused:
			refused, why = append(refused, rows[i].Row), append(why, plain(r.Err.Error()))
		case notify.Kept:
			kept++
			fallthrough
		default:
			taken = append(taken, rows[i].Row)
		}
	}
	if err := c.delete(ctx, taken); err != nil {
		return err
	}
	c.relayed.Add(int64(len(taken)))
	c.kept.Add(kept)
	if err := c.refuse(ctx, refused, why); err != nil {
		return err
	}
	c.refused.Add(int64(len(refused)))
	c.floor.moved = true
	return nil
}
