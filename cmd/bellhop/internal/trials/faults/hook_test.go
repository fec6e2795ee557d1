package faults_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/faults/history"
	"github.com/bellhopd/bellhop/notify/store"
)

// The pushes of a topic, and of broadcasts, to a URL. What they push may fail more often than any receiver has it fail.
const (
	hook           = "hook-1"
	hookSecret     = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	hookTimeout    = lease // so what is asked again for want of an answer is out of its lease
	hookedAttempts = 1000
	announced      = "/broadcasts" // to which broadcasts are pushed
)

// announcing is the push of broadcasts.
var announcing = store.Push{Name: "announcements", Topics: []string{"news.>"}, Broadcasts: true}

// startHook starts the receiver of the pushes, puts them, and waits until the one of broadcasts misses none.
func (w *world) startHook(ctx context.Context) error {
	if err := w.enlist(hook, actorProgram); err != nil {
		return err
	}
	url := "http://" + w.member(hook).addr(hook)
	for path, push := range map[string]store.Push{"/hook": {Name: "hooks", Topics: []string{hookedTopic}}, announced: announcing} {
		push.URL, push.Secrets, push.Timeout = url+path, []string{hookSecret}, hookTimeout
		if err := w.store.Home().PutPush(ctx, push); err != nil {
			return err
		}
	}
	return until("the push of broadcasts has a name", func() bool {
		all, err := w.inspector.Listeners(ctx, func(name, _ string) bool { return name == announcing.Listener() })
		return err == nil && len(all) == 1
	})
}

// hooked is a receiver of requests.
type hooked struct {
	*actor
	*dice
	secret *standardwebhooks.Webhook
	under  sync.WaitGroup // requests that are under way
	ended  context.Context
}

// receive receives requests until ctx ends.
func (a *actor) receive(ctx context.Context) error {
	secret, err := standardwebhooks.NewWebhook(hookSecret)
	if err != nil {
		return err
	}
	h := &hooked{actor: a, dice: newDice(a.random), secret: secret, ended: ctx}
	l, err := net.Listen("tcp", os.Getenv("FAULTS_HOOK"))
	if err != nil {
		return err
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: patience}
	end := context.AfterFunc(ctx, func() { server.Close() })
	defer h.under.Wait()
	defer end()
	say("ready")
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// ServeHTTP handles the message or the broadcast of a request: mostly at once, at times not at all.
func (h *hooked) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.under.Add(1)
	defer h.under.Done()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // it broke off
	}
	read := pushed
	if r.URL.Path == announced {
		read = pushedAll
	}
	got, err := read(r)
	if err != nil {
		logger().Error("unreadable", "error", err)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	got.Forged = h.secret.Verify(body, r.Header) != nil
	op := h.Call(got)
	rest(h.ended, time.Duration(h.roll(8))*time.Millisecond)
	switch n := h.roll(100); {
	case got.Forged:
		op.End(history.No, history.Record{})
		w.WriteHeader(http.StatusUnauthorized)
	case n < 6:
		op.End(history.No, history.Record{})
		w.WriteHeader(http.StatusInternalServerError)
	case n < 8: // closes early
		op.End(history.No, history.Record{})
		panic(http.ErrAbortHandler)
	case n < 9: // hangs
		op.End(history.No, history.Record{})
		select {
		case <-r.Context().Done():
		case <-h.ended.Done():
		}
		panic(http.ErrAbortHandler) // else it would be answered with 200 as it ends
	case n < 10:
		op.End(history.No, history.Record{})
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
	default:
		op.End(history.OK, history.Record{})
		w.WriteHeader(http.StatusNoContent)
	}
}

// pushedAll returns the record of the broadcast in a request.
func pushedAll(r *http.Request) (history.Record, error) {
	attempt, err := strconv.Atoi(r.Header.Get("Bellhop-Attempt"))
	return history.Record{
		Op: history.Push, Topic: r.Header.Get("Bellhop-Topic"), ID: r.Header.Get("Bellhop-Id"), Attempt: attempt,
		Webhook: r.Header.Get(standardwebhooks.HeaderWebhookID),
	}, err
}

// pushed returns the record of the message in a request. It was claimed so long after its due time as the request says.
func pushed(r *http.Request) (history.Record, error) {
	due, err := time.Parse(time.RFC3339Nano, r.Header.Get("Bellhop-Due"))
	late, bad := strconv.ParseInt(r.Header.Get("Bellhop-Late-Ms"), 10, 64)
	attempt, worse := strconv.Atoi(r.Header.Get("Bellhop-Attempt"))
	return history.Record{
		Op: history.Handle, Topic: r.Header.Get("Bellhop-Topic"), ID: r.Header.Get("Bellhop-Id"), Webhook: r.Header.Get(standardwebhooks.HeaderWebhookID),
		Due: due.UnixMilli(), Attempt: attempt, Target: "a daemon",
		Receipt: due.Add(time.Duration(late)*time.Millisecond + lease).UnixMicro(), Lease: lease.Milliseconds(),
	}, errors.Join(err, bad, worse)
}
