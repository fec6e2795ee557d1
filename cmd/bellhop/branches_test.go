package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify/storetest"
)

// A topic is given branches, each of which is worked for itself, and they are taken away.
func TestBranches(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	settings := func(change, want string) {
		t.Helper()
		if got := strings.Fields(s.call("topics", "set", "order.paid", change)); !slices.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", change, got, want)
		}
	}
	settings("branches=mail,points", "mail,points")
	settings("branches=+crm", "mail,points,crm")
	settings("branches=-points", "mail,crm")
	contains(t, s.fails(exitUsage, "topics", "set", "order.paid", "branches=mail.eu"), `invalid branches "mail.eu": use up to 16 names of letters, digits, _ and -`)
	contains(t, s.fails(exitUsage, "topics", "set", "*", "branches=mail"), "branches: ")
	contains(t, s.fails(exitUsage, "broadcast", "order.paid@mail", "--body", "x"), "broadcast: a branch has none; send it to order.paid")

	s.serve()
	s.publish("order.paid.eu", 1)
	s.call("publish", "order.paid", "--id", "o-1", "--body", "x")
	contains(t, s.call("work", "order.paid@mail", "--count", "1"), "o-1  attempt 1  ")
	storetest.Eventually(t, "it is copied and acknowledged", func() bool { return s.counts("order.paid").Acked == 1 && s.counts("order.paid@mail").Acked == 1 })
	if got, want := strings.Join(s.names(), " "), "order.paid order.paid@crm order.paid@mail order.paid@points order.paid.eu"; got != want {
		t.Errorf("topics lists %s, want %s", got, want)
	}
	r := s.feed("", "inspect", "order.paid", "o-1")
	if r.code != exitFailed || r.out != "order.paid@mail: not there\norder.paid@crm: ready\n" {
		t.Errorf("inspect: %+v", r)
	}
	contains(t, r.err, "no such message; what was ready was copied into order.paid@mail, order.paid@crm")
	contains(t, s.call("inspect", "order.paid@crm", "o-1"), "ready")
	s.call("publish", "order.paid@crm", "--id", "o-2", "--delay", time.Hour.String(), "--body", "x")
	if got := strings.Fields(s.completes("work", "order.paid@")); !slices.Equal(got, []string{"order.paid@crm", "order.paid@mail", "order.paid@points"}) {
		t.Errorf("Tab offers %q", got)
	}
	for topic, want := range map[string]string{
		"order.paid":      `1 wait at order.paid, which has branches mail, crm`,
		"order.paid@mial": `order.paid@mial is no branch of order.paid (mail, crm)`,
	} {
		w := s.start("work", topic)
		w.await(1, want)
		w.stop()
	}
	s.call("publish", "order.paid", "--id", "o-3", "--group", "g", "--body", "x")
	storetest.Eventually(t, "it is copied", func() bool { return s.counts("order.paid@crm").Ready == 2 })
	contains(t, s.call("groups", "order.paid", "g"), "waits for 2: order.paid@crm:o-3 ready, order.paid@mail:o-3 ready; then nothing")
	contains(t, s.call("find", "topic:order.paid group:g"), "order.paid@crm", "order.paid@mail")
	settings("branches=", "none")
	contains(t, s.call("work", "order.paid@crm", "--count", "1"), "o-1  attempt 1  ")
}
