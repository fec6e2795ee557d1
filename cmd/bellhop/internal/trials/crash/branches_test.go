package crash_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

var branchesFlag = flag.Int("crash.branches", 8000, "how many messages TestBranchesWhileProcessesAreKilled publishes")

// The topic that has branches, one of which has a limit, too.
const signups = "user.signup"

var signupBranches = []string{signups + "@mail", signups + "@points"}

// signupOf returns the message of a number: some have keys, and some delays. Its id stays taken, since a publisher that was killed publishes it again.
func signupOf(n int) notify.Message {
	m := notify.Message{Topic: signups, ID: strconv.Itoa(n), Body: []byte("x"), UniqueFor: time.Hour}
	if n%4 == 0 {
		m.Key = fmt.Sprint("team-", n/4%3)
	}
	if n%3 > 0 {
		m.Delay = time.Duration(n*7919%500) * time.Millisecond
	}
	return m
}

// publishSignup publishes the message of a number, and notes before that it may be due from then on.
func publishSignup(ctx context.Context, pub *notify.Publisher, file *os.File, n int) error {
	m := signupOf(n)
	err := book(file, "tried", m.ID, time.Now().UnixMilli())
	return cmp.Or(err, publishRows(ctx, pub, []notify.Message{m}, nil))
}

// workOnSignups handles the messages of the branch CRASH_BRANCH, and writes the ledger.
func workOnSignups(ctx context.Context, db *notify.Store, logger *slog.Logger) error {
	file, _, err := openLedger()
	if err != nil {
		return err
	}
	sub, err := subscribers.NewSubscriber(db, subscribers.SubscriberOptions{Logger: logger})
	if err != nil {
		return err
	}
	if err := sub.Handle(os.Getenv("CRASH_BRANCH"), func(_ context.Context, d *subscribers.Delivery) error {
		name, notes := d.Topic+":"+d.ID, fmt.Sprintf("%d/%d", d.FirstDue.UnixMilli(), d.Fence)
		err := book(file, "begin", name, d.Attempt, notes, claimed(d).UnixMilli(), d.HandedOver, time.Now().UnixMilli())
		time.Sleep(rand.N(2 * time.Millisecond))
		return cmp.Or(err, book(file, "end", name, d.Attempt))
	}, subscribers.HandleOptions{Concurrency: 16}); err != nil {
		return err
	}
	return sub.Run(ctx)
}

// openSignups starts all that is killed.
func openSignups(t *testing.T, count int) *house {
	t.Helper()
	h := newHouse(t, "signups")
	names := make([]string, len(signupBranches))
	for i, branch := range signupBranches {
		h.set(branch, notify.SettingsChange{})
		_, names[i] = record.SplitBranch(branch)
	}
	storetest.Set(t, h.store, signupBranches[0], notify.SettingsChange{Concurrency: new(200)})
	storetest.Set(t, h.store, signups, notify.SettingsChange{Branches: new(strings.Join(names, ","))})
	h.publish = func() *process { return h.employ("signup-publisher", fmt.Sprint("CRASH_COUNT=", count)) }
	h.work = func(n int) *process {
		return h.employ("signup-worker", "CRASH_BRANCH="+signupBranches[n%len(signupBranches)])
	}
	h.done = func() (n int) {
		h.read()
		for name := range h.ledger.runs {
			if h.ledger.ended(name) {
				n++
			}
		}
		return n
	}
	h.open(2 * len(signupBranches))
	return h
}

// A publisher to a topic that has branches, workers of each, daemons and Redis are killed by kill -9 in turns. By the ledger of the handlers each branch
// handles each message once, and again only if its lease ended; never early, and in the order of their due times: those without a key by when they are
// claimed first, and those of a key one at a time.
func TestBranchesWhileProcessesAreKilled(t *testing.T) {
	t.Parallel()
	h := openSignups(t, *branchesFlag)
	defer h.explain()
	began, all := time.Now(), *branchesFlag*len(signupBranches)
	h.killUntil(all, 100, func() {})
	h.published()
	h.rest(append(signupBranches, signups)...)
	storetest.Is(t, "copies that were handled", h.done(), all)
	wrong, again := h.ledger.againstBranches(*branchesFlag)
	h.blame(wrong)
	for _, topic := range append(signupBranches, signups) {
		c, err := storetest.Count(h.store, topic)
		storetest.Must(t, err)
		storetest.Is(t, "dead letters of "+topic, c.Dead, 0)
	}
	t.Logf("%d messages in %.0f s; killed %v; %d copies came again", *branchesFlag, time.Since(began).Seconds(), h.kills, again)
}
