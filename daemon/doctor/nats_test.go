package doctor_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/bellhopd/bellhop/daemon/doctor"
	"github.com/bellhopd/bellhop/daemon/natsgate"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// of returns the findings of a check with a configuration of NATS.
func (w *ward) of(check string, o natsgate.Options) (found []string) {
	w.t.Helper()
	_, err := doctor.Run(w.t.Context(), w.config, doctor.Options{Quick: true, NATS: o}, func(f doctor.Finding) {
		if f.Check == check {
			found = append(found, fmt.Sprintf("%v | %s | %s", f.Verdict, f.Found, f.Remedy))
		}
	})
	w.must(err)
	return found
}

func TestNATS(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	n, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, Username: "u", Password: "pw"})
	w.must(err)
	n.Start()
	defer n.Shutdown()
	storetest.Eventually(t, "nats is up", func() bool { return n.ReadyForConnections(time.Millisecond) })
	address := n.Addr().String()
	held, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and says nothing
	w.must(err)
	defer held.Close()
	for _, test := range []struct {
		o    natsgate.Options
		want []string
	}{
		{natsgate.Options{}, []string{"ok | off | "}},
		{natsgate.Options{URL: "nats://u:pw@" + address}, []string{"ok | nats://", address, " is up | "}},
		{natsgate.Options{URL: "nats://u:wrong@" + address}, []string{"warn | away: nats://", "programs that use NATS get nothing | check the user in BELLHOP_NATS_URL"}},
		{natsgate.Options{URL: "tls://u:pw@" + address}, []string{"warn | away: ", "| check whether that NATS uses TLS"}},
		{natsgate.Options{URL: "nats://127.0.0.1:1"}, []string{"warn | away: ", "programs that use NATS get nothing | start NATS there"}},
		{natsgate.Options{URL: "nats://127.0.0.1:1", JetStream: "S"}, []string{"fail | away: ", "broadcasts wait for the stream S | start NATS there"}},
		{natsgate.Options{URL: "nats://nowhere.invalid"}, []string{"warn | away: ", "| check the name of the host"}},
		{natsgate.Options{URL: "nats://" + held.Addr().String()}, []string{"warn | away: ", "| check the address in BELLHOP_NATS_URL"}},
	} {
		got := w.of("nats", test.o)
		if len(got) != 1 {
			t.Errorf("%s: %q", test.o.URL, got)
			continue
		}
		for _, want := range test.want {
			if !strings.Contains(got[0], want) {
				t.Errorf("%s: %s, and not %s", test.o.URL, got[0], want)
			}
		}
		if strings.Contains(got[0], "wrong@") || strings.Contains(got[0], ":pw@") {
			t.Errorf("%s: a password is shown: %s", test.o.URL, got[0])
		}
	}
}

// What waits for NATS does not need a worker.
func TestOverdueForNATS(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	w.overdue("orders", 1, time.Hour)
	push := store.Push{Name: "jobs", Topics: []string{"*", "mail.in"}, To: "nats:jobs.>"}
	w.must(w.store.Home().PutPush(t.Context(), push))
	o := natsgate.Options{URL: "nats://127.0.0.1:1"}
	if got := w.of("nats", o); len(got) != 1 || !strings.HasPrefix(got[0], "fail | away: ") || !strings.Contains(got[0], "and what is pushed there waits: *, mail.in | start NATS there") {
		t.Errorf("pushed to NATS, which is away: %q", got)
	}
	if got := w.of("overdue", o); len(got) != 1 || !strings.HasSuffix(got[0], "they are pushed to NATS | see the check of NATS above") {
		t.Errorf("pushed to NATS, which is away: %q", got)
	}
	w.must(w.store.Home().PausePush(t.Context(), push.Name, "by an operator"))
	if got := w.of("overdue", o); len(got) != 1 || !strings.HasSuffix(got[0], "their push jobs is paused, or fails | see the check of pushes below") {
		t.Errorf("paused, and NATS is away: %q", got)
	}
}
