package outage_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/notify/backoff"
	"github.com/bellhopd/bellhop/notify/outage"
)

// newLog returns a logger and its output, without times.
func newLog() (*slog.Logger, *bytes.Buffer) {
	var log bytes.Buffer
	return slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})), &log
}

const (
	begun = "level=ERROR msg=\"cannot sing; retrying\" error=hoarse\n"
	over  = "level=INFO msg=\"singing again\"\n"
)

var errHoarse = errors.New("hoarse")

func TestNotice(t *testing.T) {
	for name, test := range map[string]struct {
		happens func(*outage.Notice)
		want    string
	}{
		"all is well":          {func(n *outage.Notice) { n.Note(nil); n.End() }, ""},
		"it begins once":       {func(n *outage.Notice) { n.Note(errHoarse); n.Note(errors.New("asleep")); n.Begin() }, begun},
		"and ends once":        {func(n *outage.Notice) { n.Note(errHoarse); n.Note(nil); n.Note(nil) }, begun + over},
		"again":                {func(n *outage.Notice) { n.Note(errHoarse); n.End(); n.Note(errHoarse); n.End() }, begun + over + begun + over},
		"with keys and values": {func(n *outage.Notice) { n.Begin("error", errHoarse); n.End() }, begun + over},
	} {
		t.Run(name, func(t *testing.T) {
			log, said := newLog()
			test.happens(outage.New(log, slog.LevelError, "cannot sing; retrying", "singing again"))
			if diff := cmp.Diff(test.want, said.String()); diff != "" {
				t.Errorf("logged (-want +got):\n%s", diff)
			}
		})
	}
}

// While an outage lasts it has a state, which is that of its beginning.
func TestNoticeHasAState(t *testing.T) {
	log, _ := newLog()
	n := outage.New(log, slog.LevelError, "cannot sing; retrying", "singing again")
	var got []string
	for _, err := range []error{nil, errHoarse, errors.New("asleep"), nil} {
		n.Note(err)
		got = append(got, n.State())
	}
	n.Begin("key", "G")
	got = append(got, n.State())
	if diff := cmp.Diff([]string{"", "cannot sing; retrying: hoarse", "cannot sing; retrying: hoarse", "", "cannot sing; retrying"}, got); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
}

// Without a message for the end only the beginning is logged.
func TestNoticeOfABeginning(t *testing.T) {
	log, said := newLog()
	n := outage.New(log, slog.LevelWarn, "out of tune", "")
	n.Begin("key", "G")
	n.End()
	n.Begin("key", "A")
	if diff := cmp.Diff("level=WARN msg=\"out of tune\" key=G\nlevel=WARN msg=\"out of tune\" key=A\n", said.String()); diff != "" {
		t.Errorf("logged (-want +got):\n%s", diff)
	}
}

func TestNoticeAfter(t *testing.T) {
	for name, test := range map[string]struct {
		stopped time.Duration // the time of stop
		want    string
	}{
		"in time":  {time.Second - 1, ""},
		"too late": {time.Second + 1, begun},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log, said := newLog()
				stop := outage.New(log, slog.LevelError, "cannot sing; retrying", "").After(time.Second, "error", errHoarse)
				<-time.After(test.stopped)
				stop()
				<-time.After(time.Minute)
				synctest.Wait()
				if diff := cmp.Diff(test.want, said.String()); diff != "" {
					t.Errorf("logged (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, said := newLog()
		r := outage.NewRetry(log, "cannot sing; retrying", "singing again")
		waits := func(ctx context.Context, err error) time.Duration {
			began := time.Now()
			r.Wait(ctx, err)
			return time.Since(began)
		}
		if d := waits(t.Context(), nil); d != 0 {
			t.Errorf("it waits for %v after a success", d)
		}
		for range 10 {
			waits(t.Context(), errHoarse)
		}
		if d := waits(t.Context(), errHoarse); d < backoff.Max/2 || d > backoff.Max {
			t.Errorf("it waits for %v after many failures", d)
		}
		r.Wait(t.Context(), nil)
		if d := waits(t.Context(), errHoarse); d > backoff.Min {
			t.Errorf("it waits for %v after the first failure", d)
		}
		r.Wait(t.Context(), nil)
		ended, end := context.WithCancel(t.Context())
		end()
		r.Wait(ended, ended.Err())
		if diff := cmp.Diff(begun+over+begun+over, said.String()); diff != "" {
			t.Errorf("logged (-want +got):\n%s", diff)
		}
	})
}
