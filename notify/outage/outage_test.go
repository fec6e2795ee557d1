package outage_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"syscall"
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
		got, last, _ := strings.Cut(said.String(), " after=")
		if diff := cmp.Diff(begun+over+strings.TrimSpace(over), got); diff != "" || !strings.HasSuffix(last, "ms was=\"cannot sing; retrying: hoarse\"\n") {
			t.Errorf("logged last %q, and (-want +got):\n%s", last, diff)
		}
	})
}

// A reply is an error that Redis answers.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

// What has another kind of cause than before is logged again, once; that a connection broke says nothing new.
func TestNoticeOfAnotherCause(t *testing.T) {
	log, said := newLog()
	n := outage.New(log, slog.LevelError, "cannot sing; retrying", "singing again")
	refused, locked := fmt.Errorf("dial: %w", syscall.ECONNREFUSED), reply("NOAUTH Authentication required.")
	for _, err := range []error{refused, io.EOF, refused, locked, os.ErrDeadlineExceeded, refused, locked} {
		n.Note(err)
	}
	if got, want := n.State(), "cannot sing; retrying: NOAUTH Authentication required."; got != want {
		t.Errorf("the state is %q, want %q", got, want)
	}
	n.Note(nil)
	const again = "level=ERROR msg=\"cannot sing; retrying\" error="
	if diff := cmp.Diff(again+"\"dial: connection refused\"\n"+again+"\"NOAUTH Authentication required.\"\n"+again+"\"i/o timeout\"\n"+over, said.String()); diff != "" {
		t.Errorf("logged (-want +got):\n%s", diff)
	}
}

// Of many that have an outage each kind of cause is logged once, whoever has it, and the end when none has it any more. What is forgotten is
// logged anew.
func TestManyOfAnotherCause(t *testing.T) {
	log, said := newLog()
	m := outage.NewMany(log, slog.LevelError, "cannot sing; retrying", "singing again")
	refused, locked := fmt.Errorf("dial: %w", syscall.ECONNREFUSED), reply("NOAUTH Authentication required.")
	for member, err := range []error{refused, io.EOF, refused, locked, refused, locked} {
		m.Begin(member, "error", err)
	}
	for member := range 6 {
		m.End(member)
	}
	const again = "level=ERROR msg=\"cannot sing; retrying\" error="
	want := again + "\"dial: connection refused\"\n" + again + "\"NOAUTH Authentication required.\"\n" + over
	m.Begin(1, "error", errHoarse)
	m.Forget(1)
	m.Begin(2, "error", errHoarse)
	m.Reset()
	m.End(2)
	m.Begin(2, "error", errHoarse)
	if diff := cmp.Diff(want+begun+begun+begun, said.String()); diff != "" {
		t.Errorf("logged (-want +got):\n%s", diff)
	}
}

// A patient notice waits a second, unless a call took that long already, and then has the last error.
func TestPatientNotice(t *testing.T) {
	for name, test := range map[string]struct {
		errs []error // one each 400 ms
		want string
	}{
		"it is over within a second": {[]error{io.EOF, errHoarse, nil}, "level=INFO msg=\"singing again\" after=800ms was=\"cannot sing; retrying: hoarse\"\n"},
		"it lasts":                   {[]error{io.EOF, io.EOF, io.EOF, errHoarse, errHoarse, nil}, begun + over},
		"a call took long":           {[]error{os.ErrDeadlineExceeded, nil}, strings.Replace(begun, "hoarse", "\"i/o timeout\"", 1) + over},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log, said := newLog()
				n := outage.New(log, slog.LevelError, "cannot sing; retrying", "singing again").Patient()
				for _, err := range test.errs {
					n.Note(err)
					<-time.After(400 * time.Millisecond)
				}
				if diff := cmp.Diff(test.want, said.String()); diff != "" {
					t.Errorf("logged (-want +got):\n%s", diff)
				}
			})
		})
	}
}
