package natsgate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/backoff"
)

// streamDuplicates is the window in which a stream that the gateway made drops
// broadcasts that it has already.
const streamDuplicates = 2 * time.Minute

// keep sends messages to the stream and returns the ones that it has not acknowledged, and why.
func (t *term) keep(ctx context.Context, c *connection, messages []outgoing) (again []outgoing, err error) {
	if err := t.ensureStream(ctx, c); err != nil {
		return messages, err
	}
	futures := make([]jetstream.PubAckFuture, 0, len(messages))
	for _, m := range messages {
		f, fault := c.js.PublishMsgAsync(m.Msg, jetstream.WithExpectStream(t.o.JetStream), jetstream.WithRetryAttempts(0))
		if errors.Is(fault, nats.ErrMaxPayload) {
			t.tooLarge(m, fault)
		} else if fault != nil {
			err = fault
			break // the messages behind must not overtake this one
		}
		futures = append(futures, f)
	}
	for i, f := range futures {
		if f == nil {
			continue
		}
		switch fault := acked(ctx, c, f); {
		case fault == nil:
			t.count.broadcasts.Add(1)
		case isTooLarge(fault):
			t.tooLarge(messages[i], fault)
		default:
			again = append(again, messages[i])
			if err == nil {
				err = t.explain(fault)
			}
		}
	}
	again = append(again, messages[len(futures):]...)
	if len(again) > 0 {
		c.doubt() // the stream may have changed
	}
	return again, err
}

// acked waits for the acknowledgement of a stream.
func acked(ctx context.Context, c *connection, f jetstream.PubAckFuture) error {
	select {
	case <-f.Ok():
		return nil
	case err := <-f.Err():
		return err
	case <-c.closed.Done():
	case <-ctx.Done():
	}
	select { // the acknowledgement may have come before
	case <-f.Ok():
		return nil
	case err := <-f.Err():
		return err
	default:
	}
	if c.lost() {
		return nats.ErrConnectionClosed
	}
	return fmt.Errorf("no acknowledgement within %v", confirmWithin)
}

func isTooLarge(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamMessageExceedsMaximum
}

// explain adds the likely cause to an error of a stream.
func (g *Gate) explain(err error) error {
	if errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse) {
		return fmt.Errorf("stream %s: nobody takes %s: was the stream removed, or is JetStream off? %w", g.o.JetStream, g.broadcastSubjects(), err)
	}
	return fmt.Errorf("stream %s: %w", g.o.JetStream, err)
}

// broadcastSubjects returns the pattern of all broadcasts' subjects.
func (g *Gate) broadcastSubjects() string { return g.o.Prefix + ".broadcast.>" }

// prepareStream waits until there is a stream for broadcasts, so that its faults
// are logged before the first of them.
func (t *term) prepareStream(ctx context.Context) {
	for pause := (backoff.Pause{}); t.o.JetStream != "" && ctx.Err() == nil; pause.Wait(ctx) {
		c := t.await(ctx)
		if c == nil {
			return
		}
		once, cancel := context.WithTimeout(ctx, confirmWithin)
		err := t.ensureStream(once, c)
		cancel()
		switch {
		case err == nil:
			t.unconfirmed.End(t.number())
			return
		case ctx.Err() == nil && !c.lost():
			t.refused(err, t.broadcastSubjects())
		}
	}
}

// ensureStream makes sure that there is a stream for broadcasts: when a
// connection is new, and again after a refusal on it. So a stream that was
// removed is made again: to have none, leave out the setting.
func (t *term) ensureStream(ctx context.Context, c *connection) (err error) {
	c.checking.Lock()
	defer c.checking.Unlock()
	if c.fits {
		return nil
	}
	if c.js == nil {
		// Without the timeout a message that is never acknowledged would count as pending for good.
		c.js, err = jetstream.New(c.nc, jetstream.WithPublishAsyncMaxPending(2*bridgeBatch*t.shards), jetstream.WithPublishAsyncTimeout(confirmWithin))
		if err != nil {
			return err
		}
	}
	found, err := t.makeStream(ctx, c.js)
	if err != nil {
		return fmt.Errorf("stream %s: %w", t.o.JetStream, err)
	}
	if err := t.checkStream(found); err != nil {
		return fmt.Errorf("stream %s: %w", t.o.JetStream, err)
	}
	c.fits, c.discardsNew = true, found.CachedInfo().Config.Discard == jetstream.DiscardNew
	return nil
}

// takesMany reports whether broadcasts may be sent before those ahead of them are confirmed. A full stream
// that discards new ones refuses one, and may take another behind it: a smaller one, or since there is room
// again. That has overtaken the refused one then. What a stream does that is yet to be checked is unknown.
func (t *term) takesMany(c *connection) bool {
	if t.o.JetStream == "" {
		return true
	}
	c.checking.Lock()
	defer c.checking.Unlock()
	return c.fits && !c.discardsNew
}

// doubt has the stream checked again before the next broadcast.
func (c *connection) doubt() {
	c.checking.Lock()
	defer c.checking.Unlock()
	c.fits = false
}

// makeStream returns the stream, and makes it if it is missing.
func (g *Gate) makeStream(ctx context.Context, js jetstream.JetStream) (jetstream.Stream, error) {
	name, subjects := g.o.JetStream, g.broadcastSubjects()
	found, err := js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		found, err = js.CreateStream(ctx, jetstream.StreamConfig{
			Name: name, Subjects: []string{subjects}, Description: "Broadcasts of Bellhop",
			MaxMsgsPerSubject: int64(g.o.KeepCount), MaxAge: g.o.KeepAge,
			Duplicates: min(streamDuplicates, g.o.KeepAge),
		})
		if err == nil {
			g.o.Logger.Info("created the stream for broadcasts", "stream", name, "subjects", subjects)
			return found, nil
		}
		if other, bad := js.StreamNameBySubject(ctx, subjects); bad == nil && other != name {
			return nil, fmt.Errorf("its subjects %s overlap those of the stream %s: set BELLHOP_NATS_JETSTREAM=%s, or take them from it: %w", subjects, other, other, err)
		}
	}
	if errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) {
		return nil, fmt.Errorf("JetStream is off at this server, or for this account: switch it on (nats-server -js), or leave out BELLHOP_NATS_JETSTREAM: %w", err)
	}
	return found, err
}

// checkStream refuses a stream that does not take all broadcasts, or does not acknowledge them.
func (g *Gate) checkStream(s jetstream.Stream) error {
	c, subjects := s.CachedInfo().Config, g.broadcastSubjects()
	wanted, err := notify.ParsePattern(subjects)
	if err != nil {
		return err
	}
	takesAll := func(text string) bool {
		taken, err := notify.ParsePattern(text)
		return err == nil && taken.Covers(wanted)
	}
	if !slices.ContainsFunc(c.Subjects, takesAll) {
		return fmt.Errorf("it takes %s, and not %s: add that to its subjects (nats stream edit), or name another stream", strings.Join(c.Subjects, ", "), subjects)
	}
	if c.NoAck {
		return errors.New("it does not acknowledge (no_ack), so broadcasts could be lost unnoticed: switch no_ack off (nats stream edit), or name another stream")
	}
	return nil
}
