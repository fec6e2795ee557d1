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

	"github.com/bellhopd/bellhop/notify/backoff"
)

// streamDuplicates is the time within which a stream that is made here stores a
// broadcast that is sent again once.
const streamDuplicates = 2 * time.Minute

// keep sends messages to the stream and returns those that it has not acknowledged.
func (g *Gate) keep(ctx context.Context, l *line, messages []outgoing) (again []outgoing, err error) {
	if err := g.lookAfterStream(ctx, l); err != nil {
		return messages, err
	}
	futures := make([]jetstream.PubAckFuture, 0, len(messages))
	for _, m := range messages {
		f, fault := l.js.PublishMsgAsync(m.Msg, jetstream.WithExpectStream(g.o.JetStream), jetstream.WithRetryAttempts(0))
		if errors.Is(fault, nats.ErrMaxPayload) {
			g.tooLarge(m, fault)
		} else if fault != nil {
			err = fault
			break // what follows must not overtake it
		}
		futures = append(futures, f)
	}
	for i, f := range futures {
		if f == nil {
			continue
		}
		switch fault := acked(ctx, l, f); {
		case fault == nil:
			g.count.broadcasts.Add(1)
		case isTooLarge(fault):
			g.tooLarge(messages[i], fault)
		default:
			again = append(again, messages[i])
			if err == nil {
				err = g.explain(fault)
			}
		}
	}
	again = append(again, messages[len(futures):]...)
	l.fits = len(again) == 0 // else the stream may be another now
	return again, err
}

// acked waits for the acknowledgement of a stream.
func acked(ctx context.Context, l *line, f jetstream.PubAckFuture) error {
	select {
	case <-f.Ok():
		return nil
	case err := <-f.Err():
		return err
	case <-l.closed:
	case <-ctx.Done():
	}
	select { // it may have come before that
	case <-f.Ok():
		return nil
	case err := <-f.Err():
		return err
	default:
	}
	if l.lost() {
		return nats.ErrConnectionClosed
	}
	return fmt.Errorf("no acknowledgement within %v", confirmWithin)
}

func isTooLarge(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamMessageExceedsMaximum
}

// explain adds to an error of a stream what to do about it.
func (g *Gate) explain(err error) error {
	if errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse) {
		return fmt.Errorf("stream %s: nobody takes %s: was the stream removed, or is JetStream off? %w", g.o.JetStream, g.broadcastSubjects(), err)
	}
	return fmt.Errorf("stream %s: %w", g.o.JetStream, err)
}

// broadcastSubjects are the subjects of all broadcasts.
func (g *Gate) broadcastSubjects() string { return g.o.Prefix + ".broadcast.>" }

// prepareStream waits until there is a stream for broadcasts, so that what is
// wrong with it is told before the first of them.
func (g *Gate) prepareStream(ctx context.Context) {
	for pause := (backoff.Pause{}); g.o.JetStream != "" && ctx.Err() == nil; pause.Wait(ctx) {
		l := g.await(ctx)
		if l == nil {
			return
		}
		once, cancel := context.WithTimeout(ctx, confirmWithin)
		err := g.lookAfterStream(once, l)
		cancel()
		switch {
		case err == nil:
			g.told.fine(cannotConfirm)
			return
		case ctx.Err() == nil && !l.lost():
			g.refused(err, g.broadcastSubjects())
		}
	}
}

// lookAfterStream makes sure that there is a stream for broadcasts: when a
// connection is new, and again when something was refused on it. So a stream
// that was removed is made anew: who wants none leaves out the setting.
func (g *Gate) lookAfterStream(ctx context.Context, l *line) (err error) {
	if l.fits {
		return nil
	}
	if l.js == nil {
		// Without the timeout what is never acknowledged would count as pending for good.
		l.js, err = jetstream.New(l.conn, jetstream.WithPublishAsyncMaxPending(2*bridgeBatch), jetstream.WithPublishAsyncTimeout(confirmWithin))
		if err != nil {
			return err
		}
	}
	found, err := g.makeStream(ctx, l.js)
	if err != nil {
		return fmt.Errorf("stream %s: %w", g.o.JetStream, err)
	}
	if err := g.checkStream(found); err != nil {
		return fmt.Errorf("stream %s: %w", g.o.JetStream, err)
	}
	l.fits = true
	return nil
}

// makeStream returns the stream, which it makes if it is not there.
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
			g.o.Logger.Info("made the stream for broadcasts", "stream", name, "subjects", subjects)
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

// checkStream refuses a stream that does not take all broadcasts for good.
func (g *Gate) checkStream(s jetstream.Stream) error {
	c, subjects := s.CachedInfo().Config, g.broadcastSubjects()
	if !slices.ContainsFunc(c.Subjects, func(taken string) bool { return covers(taken, subjects) }) {
		return fmt.Errorf("it takes %s, and not %s: add that to its subjects (nats stream edit), or name another stream", strings.Join(c.Subjects, ", "), subjects)
	}
	if c.NoAck {
		return errors.New("it does not acknowledge (no_ack), and so loses without a word: have it do so (nats stream edit), or name another stream")
	}
	return nil
}

// covers reports whether a subject takes all that another one does, which ends in >.
func covers(subject, other string) bool {
	have, want := strings.Split(subject, "."), strings.Split(other, ".")
	for i, token := range have {
		switch {
		case token == ">":
			return i < len(want)
		case i >= len(want), token != "*" && token != want[i], token == "*" && want[i] == ">":
			return false
		}
	}
	return len(have) == len(want)
}
