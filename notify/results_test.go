package notify_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// What an acknowledgement keeps of a message is inspected and listed, with the attempts
// that failed, and holds the id until its time is over, or it is cancelled. It is no
// message any more: nothing counts or exports it.
func TestAckWith(t *testing.T) {
	t.Parallel()
	p := storetest.NewPlayer(t, scenario())
	p.Play(`
	publish a
	note a
	claim 1 = a
	nack a delay=0s reason="not yet"
	pass 2ms
	carry
	claim 1 = a:1
	ack a result="42\n" keep=1h
	has a state=done result="42\n" attempts=1 history=1 body= published=noted ended=now until=now+1h
	list done = a
	counts published=1 acked=1
	`)
	if sum, err := p.Inspector.Survey(t.Context(), 1); err != nil || sum.Messages != 0 || sum.Acked != 1 {
		t.Errorf("surveyed %+v, %v", sum, err)
	}
	if lines, _ := export(t, p.Store); len(lines) > 0 {
		t.Errorf("exported %s", lines)
	}
	p.Play(`
	publish a = refused:exists
	publish a if_exists=keep = kept:done
	cancel a = done
	publish a
	claim 1 = a
	has a attempts=0 history=0
	ack a
	empty
	`)
}

// Without keep it is an acknowledgement as any. A message that another follows is not kept: that one has its id.
func TestAckWithout(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
== nothing to keep
	publish a
	claim 1 = a
	ack a keep=0s
	is a=none
	empty
== no result
	publish a
	claim 1 = a
	ack a keep=1h
	has a state=done result=
	cancel a = done
	empty
== followed
	publish a
	claim 1 = a
	publish a body=next then=after = leased
	ack a result=x keep=1h = forgotten
	has a state=ready body=next
	`)
	pub, db := open(t)
	for id, body := range map[string][]byte{"none": nil, "empty": {}, "null": {0, '\n', 0xff}} { // none and an empty one differ
		publish(t, pub, message(id, time.Time{}))
		storetest.Must(t, storetest.ErrOf(one(t, db).AckWith(t.Context(), notify.AckResult{Body: body, Keep: anHour})))
		if info := inspect(t, pub, id); !bytes.Equal(info.Result, body) || (info.Result == nil) != (body == nil) {
			t.Errorf("%s: %+v", id, info)
		}
	}
}

// What cannot be kept is refused, and the lease goes on.
func TestAckWithFaults(t *testing.T) {
	t.Parallel()
	_, db := open(t)
	publish(t, clientOf(t, db), message("a", time.Time{}))
	d := one(t, db)
	for _, bad := range []struct {
		notify.AckResult
		want string
	}{
		{notify.AckResult{Body: make([]byte, store.MaxResult+1), Keep: anHour}, "65537 bytes"},
		{notify.AckResult{Keep: store.MaxKeep + 1}, "up to 720h"},
		{notify.AckResult{Keep: -1}, "more than zero"},
		{notify.AckResult{Body: []byte("x")}, "keep is missing"},
		{notify.AckResult{Body: make([]byte, store.MaxResult+1)}, "keep is missing"},
	} {
		if _, err := d.AckWith(t.Context(), bad.AckResult); !errors.Is(err, notify.ErrInvalid) || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("got %v; want %q", err, bad.want)
		}
	}
	largest := notify.AckResult{Body: bytes.Repeat([]byte{'x'}, store.MaxResult), Keep: store.MaxKeep}
	if forgotten, err := d.AckWith(t.Context(), largest); forgotten || err != nil {
		t.Error(forgotten, err)
	}
	storetest.Fails(t, "twice", storetest.ErrOf(d.AckWith(t.Context(), largest)), notify.ErrLeaseLost)
}

// The id stays taken as long as its publisher wants, or as it is kept: whichever is
// longer.
func TestKeepAndUniqueFor(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
	publish a unique_for=2h
	claim 1 = a
	ack a keep=1h
	has a until=now+2h ended=now
	publish b unique_for=1h
	claim 1 = b
	ack b keep=2h
	has b until=now+2h ended=now
	`)
}

// A topic keeps as many as it may, for as long as it may at the most. Those that would go
// first make room: by acknowledgements, and the rest by the housekeeping. Ids that are to
// be unique for longer stay taken.
func TestKeepBounds(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
	publish a unique_for=2h
	publish b c d e
	claim 9 = a b c d e
	ack a keep=60m                     # the bound is not known yet
	ack b keep=61m
	ack c keep=62m
	ack d keep=63m
	ack e keep=64m
	list done = b c d e a
	sweep 5 = too many 0, forgotten 0
	publish long
	claim 1 = long
	ack long keep=24h
	has long until=now+1h              # as long as the topic may
	list done = long c d e a           # the shortest, which was just added, stays
	sweep 3 = too many 3, forgotten 0
	list done = d e a
	publish more
	claim 1 = more
	ack more keep=1m
	list done = more e a
	sweep 1 = too many 3, forgotten 0  # one by the last acknowledgement
	list done = a
	sweep 1 = too many 0, forgotten 0
	redis ZCARD taken = 1
	`, scenario())
}

// What a bound removes keeps its id taken, where the publisher wants that for longer.
func TestKeepBoundLeavesIDsTaken(t *testing.T) {
	t.Parallel()
	p := storetest.NewPlayer(t, scenario())
	p.Play(`
	sweep 1 = too many 0, forgotten 0
	publish a unique_for=30m
	claim 1 = a
	ack a result=x keep=1m
	publish b
	claim 1 = b
	ack b keep=1h
	has a state=done ended=none result=
	`)
	storetest.Fails(t, "awaited", storetest.ErrOf(p.Inspector.Await(t.Context(), topic, "a")), notify.ErrGone)
}

// When its time is over, a message that was kept is gone, and its id is free: for
// whoever asks, and in the housekeeping.
func TestKeepIsOver(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
	sweep 10 = too many 0, forgotten 0
	publish asked published swept
	claim 3 = asked published swept
	ack asked result=x keep=1ms
	ack published result=x keep=1ms
	ack swept result=x keep=1ms
	pass 2ms
	is asked=none
	publish published
	claim 1 = published
	ack published
	sweep 10 = too many 0, forgotten 0
	redis EXISTS taken = 0
	redis EXISTS done:order.timeout = 0
	redis EXISTS messages = 0
	empty
	`, scenario())
}

// A topic that keeps something is not forgotten, though it was not used for long, as far as the housekeeping knows.
func TestKeptTopicIsRemembered(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
	publish a
	claim 1 = a
	ack a keep=1h
	redis HSET topics order.timeout:idle "1000 1"
	redis ZADD topics-seen 0 order.timeout
	sweep 10 = too many 0, forgotten 0
	counts published=1 acked=1
	cancel a = done
	redis HSET topics order.timeout:idle "1000 1"
	redis ZADD topics-seen 0 order.timeout
	sweep 10 = too many 0, forgotten 1
	`, scenario())
}

// Where memory is short a message is acknowledged, and what it leaves is not kept: the
// answer says so.
func TestAckWithoutMemory(t *testing.T) {
	t.Parallel()
	db := storetest.Unhurried(storetest.At(t, storetest.Server(t, "--maxmemory-policy", "noeviction").URL(), "own"))
	pub := clientOf(t, db)
	publish(t, pub, message("a", time.Time{}))
	d := one(t, db)
	do(t, db, []any{"CONFIG", "SET", "maxmemory", 1})
	do(t, db, []any{"DEL", db.KeysOf(topic).Room(90)}) // a measure holds for a while
	if forgotten, err := d.AckWith(t.Context(), notify.AckResult{Body: []byte("x"), Keep: anHour}); !forgotten || err != nil {
		t.Error(forgotten, err)
	}
	storetest.Is(t, "it is", stateOf(t, pub, "a"), 0)
	storetest.Fails(t, "it is still leased", d.Ack(t.Context()), notify.ErrLeaseLost)
}

// A handler that left a result, and returns nil, has settled its message.
func TestHandlerAcknowledgesWith(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	s, err := subscribers.NewSubscriber(db, subscribers.SubscriberOptions{Name: "mailer"})
	storetest.Must(t, err)
	settled := make(chan error, 10)
	err = s.Handle(topic, func(ctx context.Context, d *subscribers.Delivery) error {
		_, err := d.AckWith(ctx, notify.AckResult{Body: append([]byte("done: "), d.Body...), Keep: anHour})
		settled <- errors.Join(err, again(ctx, d))
		return nil
	}, subscribers.HandleOptions{})
	storetest.Must(t, err)
	storetest.Run(t, s.Run)
	publish(t, pub, message("a", time.Time{}))
	info, err := pub.Await(t.Context(), topic, "a")
	if err != nil || string(info.Result) != "done: body of a" || info.State != notify.Done || info.By != "mailer" || info.Since.IsZero() || info.Since.After(info.Ended) {
		t.Errorf("got %+v, %v", info, err)
	}
	storetest.Should(t, storetest.Receive(t, "it was settled", settled))
	storetest.Eventually(t, "the worker waits again", func() bool {
		c, err := storetest.Count(db, topic)
		return err == nil && c.Waiting == 1
	})
	wantCounts(t, pub, notify.Counts{Published: 1, Acked: 1, Waiting: 1})
}

// again settles a delivery that is settled, which must be refused.
func again(ctx context.Context, d *subscribers.Delivery) error {
	if _, err := d.AckWith(ctx, notify.AckResult{}); !errors.Is(err, notify.ErrLeaseLost) {
		return fmt.Errorf("settled twice: %w", err)
	}
	return nil
}
