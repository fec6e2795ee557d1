package repair_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon/doctor/repair"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/redisserver"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// A halfway is a call that is stopped at each of its writes.
type halfway struct {
	name  string
	ready func(t *testing.T, db *notify.Store)       // prepares what the call needs
	call  func(t *testing.T, db *notify.Store) error // the call that is stopped
	again func(t *testing.T, db *notify.Store)       // runs when all rights are back, so that what stays is delivered soon
	stays []string                                   // messages that are delivered in the end, or are dead of "a test"

	settles bool // the call may have settled them before it was stopped
}

const mail, mailBranch = "mail", "mail@desk"

// A call that lacks the right to one of its writes stops there. Wherever it stops,
// each message can still be carried or claimed, or is not published; no record is
// without a place.
func TestStoppedHalfwayByThirds(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t)
	for i, h := range slices.Concat(halfways, groupHalfways) {
		if !storetest.InThird(i) {
			continue
		}
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			writes := h.writes(t, server)
			if len(writes) == 0 {
				t.Fatal("the call writes nothing")
			}
			for _, w := range writes {
				t.Run(w.command+" "+w.key, func(t *testing.T) {
					t.Parallel()
					h.stopAt(t, server, w)
				})
			}
		})
	}
}

// halfways are the calls that move messages.
var halfways = []halfway{
	{name: "publish later", call: publishes(notify.Message{ID: "new", Delay: time.Hour, TTL: time.Hour}), again: unpublished, stays: []string{"new"}},
	{name: "publish now", call: publishes(notify.Message{ID: "new", TTL: time.Hour}), again: unpublished, stays: []string{"new"}},
	{name: "publish behind", ready: isBehind, call: publishes(notify.Message{ID: "new"}), again: unpublished, stays: []string{"before", "new"}},
	{name: "publish one later", call: publishes(notify.Message{ID: "new", Delay: time.Hour}), again: unpublished, stays: []string{"new"}},
	{name: "publish one now", call: publishes(notify.Message{ID: "new"}), again: unpublished, stays: []string{"new"}},
	{name: "hand over", ready: awaits(mail), call: publishes(notify.Message{ID: "new"}), again: unpublished, stays: []string{"new"}},
	{name: "hand over to nobody", ready: awaitsInVain(mail), call: publishes(notify.Message{ID: "new"}), again: unpublished, stays: []string{"new"}},
	{name: "hand over what is due", ready: both(isOverdue("a"), awaits(mail)), stays: []string{"a"}, call: carries},
	{name: "hand over what is due to nobody", ready: both(isOverdue("a"), awaitsInVain(mail)), stays: []string{"a"}, call: carries},
	{name: "hand over a copy", ready: both(isToBeCopied, awaits(mailBranch)), stays: []string{"a"}, call: carries},
	{name: "hand over a copy to nobody", ready: both(isToBeCopied, awaitsInVain(mailBranch)), stays: []string{"a"}, call: carries},
	{name: "confirm", ready: isHanded("a"), stays: []string{"a"}, call: confirms},
	{name: "carry what was handed over", ready: both(isHanded("a"), leaseEnds), stays: []string{"a"}, call: carries},
	{name: "announce", call: publishes(notify.Message{ID: "new", Delay: time.Hour, Broadcast: true}), again: announced},
	{name: "restore", call: publishes(notify.Message{ID: "new", Due: later, TTL: time.Hour, Restore: &notify.Restore{AttemptsUsed: 2}}), again: unpublished, stays: []string{"new"}},
	{name: "restore what is dead", call: publishes(deadLetter), again: requeued, stays: []string{"new"}},
	{name: "begin a relay", call: beginsRelay("first")},
	{name: "relay", ready: ready(beginsRelay("first")), call: relays("first", notify.Message{ID: "new"}), again: both(relayedAgain(notify.Message{ID: "new"}), unpublished), stays: []string{"new"}},
	{name: "relay one in place of another", ready: both(isScheduled("a"), ready(beginsRelay("first"))), call: relays("first", notify.Message{ID: "a", IfExists: notify.Replace}), again: both(relayedAgain(notify.Message{ID: "a", IfExists: notify.Replace}), atOnce), stays: []string{"a"}},
	{name: "replace", ready: isScheduled("a"), stays: []string{"a"}, call: publishes(notify.Message{ID: "a", IfExists: notify.Replace, TTL: time.Hour}), again: atOnce},
	{name: "replace what is ready", ready: isReady("a"), stays: []string{"a"}, call: publishes(notify.Message{ID: "a", IfExists: notify.Replace, UniqueFor: time.Hour, Delay: time.Hour}), again: atOnce},
	{name: "replace what is dead", ready: isDead("a"), stays: []string{"a"}, call: publishes(notify.Message{ID: "a", IfExists: notify.Replace})},
	{name: "debounce", ready: isScheduled("a"), stays: []string{"a"}, call: publishes(notify.Message{ID: "a", IfExists: notify.Debounce, Delay: time.Hour}), again: atOnce},
	{name: "publish with an id that stays taken", call: publishes(notify.Message{ID: "new", UniqueFor: time.Hour, TTL: time.Hour}), again: unpublished, stays: []string{"new"}},
	{name: "follow", ready: isLeased("a"), stays: []string{"a"}, call: publishes(notify.Message{ID: "a", Then: notify.After})},
	{name: "acknowledge what is followed", ready: both(isLeased("a"), isFollowed), stays: []string{"a"}, call: acknowledges},
	{name: "acknowledge what has an id that stays taken", settles: true, ready: isUnique, stays: []string{"a"}, call: acknowledges},
	{name: "bury what is followed", ready: both(isLeased("a"), isFollowed), stays: []string{"a"}, call: inHand(func(c *subscribers.Claimer, d subscribers.Delivery) error {
		_, err := d.Bury(context.Background(), "a test")
		return err
	})},
	{name: "carry what was leased and is followed", ready: both(isLastAttempt, both(isFollowed, leaseEnds)), stays: []string{"a"}, call: carries},
	{name: "free an id whose time is over", ready: isOver, stays: []string{"a"}, call: publishes(notify.Message{ID: "a"}), again: func(t *testing.T, db *notify.Store) {
		storetest.Should(t, publishes(notify.Message{ID: "a", IfExists: notify.Keep})(t, db))
	}},
	{name: "cancel what follows", ready: both(isLeased("a"), isFollowed), stays: []string{"a"}, call: func(t *testing.T, db *notify.Store) error {
		return storetest.Publisher(t, db).CancelNext(t.Context(), mail, "a")
	}},
	{name: "claim", ready: isReady("a"), stays: []string{"a"}, call: func(t *testing.T, db *notify.Store) error {
		_, err := subscriberstest.Claimer(t, db).Claim(t.Context(), mail, subscribers.ClaimOptions{Max: 1, Lease: record.MinLease})
		return err
	}},
	{name: "acknowledge", settles: true, ready: isLeased("a"), stays: []string{"a"}, call: inHand(func(c *subscribers.Claimer, d subscribers.Delivery) error {
		return d.Ack(context.Background())
	})},
	{name: "acknowledge one without a time to live", settles: true, ready: isLeasedForGood, stays: []string{"a"}, call: inHand(func(c *subscribers.Claimer, d subscribers.Delivery) error {
		return d.Ack(context.Background())
	})},
	{name: "give back", ready: isLeased("a"), stays: []string{"a"}, call: inHand(func(c *subscribers.Claimer, d subscribers.Delivery) error {
		_, err := d.Nack(context.Background(), 0, "a test")
		return err
	})},
	{name: "bury", ready: isLeased("a"), stays: []string{"a"}, call: inHand(func(c *subscribers.Claimer, d subscribers.Delivery) error {
		_, err := d.Bury(context.Background(), "a test")
		return err
	})},
	{name: "acknowledge for an archive", settles: true, ready: both(isLeased("a"), isArchived), stays: []string{"a"}, call: acknowledges},
	{name: "drop for an archive", settles: true, ready: both(isDropped, isArchived), stays: []string{"a"}, call: inHand(func(c *subscribers.Claimer, d subscribers.Delivery) error {
		_, err := d.Nack(context.Background(), 0, "a test")
		return err
	})},
	{name: "bury for an archive, and a listener to deaths", ready: both(isLeased("a"), isArchived), stays: []string{"a"}, call: inHand(func(c *subscribers.Claimer, d subscribers.Delivery) error {
		_, err := d.Bury(context.Background(), "a test")
		return err
	})},
	{name: "carry for an archive, and a listener to deaths", ready: both(isLastAttempt, both(isArchived, leaseEnds)), call: carries},
	{name: "release", ready: isLeased("a"), stays: []string{"a"}, call: inHand(func(c *subscribers.Claimer, d subscribers.Delivery) error {
		_, err := c.ReleaseMany(context.Background(), mail, []subscribers.Delivery{d})
		return err
	})},
	{name: "extend", ready: isLeased("a"), stays: []string{"a"}, call: inHand(func(c *subscribers.Claimer, d subscribers.Delivery) error {
		return d.Extend(context.Background(), 2*record.MinLease)
	})},
	{name: "extend and tell of the work", ready: isLeased("a"), stays: []string{"a"}, call: inHand(func(c *subscribers.Claimer, d subscribers.Delivery) error {
		return d.Extend(store.WithProgress(context.Background(), store.Progress{Percent: 40, Note: "a"}), 2*record.MinLease)
	})},
	{name: "release what was told of", ready: isTold, stays: []string{"a"}, call: inHand(func(c *subscribers.Claimer, d subscribers.Delivery) error {
		_, err := c.ReleaseMany(context.Background(), mail, []subscribers.Delivery{d})
		return err
	})},
	{name: "stop", settles: true, ready: isLeased("a"), stays: []string{"a"}, call: stops},
	{name: "release what is to be cancelled", settles: true, ready: both(isLeased("a"), isStopped), stays: []string{"a"}, call: inHand(func(c *subscribers.Claimer, d subscribers.Delivery) error {
		return d.Release(context.Background())
	})},
	{name: "reject what is to be cancelled", settles: true, ready: both(isLeased("a"), isStopped), stays: []string{"a"}, call: inHand(func(c *subscribers.Claimer, d subscribers.Delivery) error {
		_, err := d.Nack(context.Background(), 0, "a test")
		return err
	})},
	{name: "carry what is to be cancelled", settles: true, ready: both(isLeased("a"), both(isStopped, leaseEnds)), stays: []string{"a"}, call: carries},
	{name: "reschedule", ready: isScheduled("a"), stays: []string{"a"}, call: reschedules(time.Minute), again: atOnce},
	{name: "reschedule to now", ready: isScheduled("a"), stays: []string{"a"}, call: reschedules(0), again: atOnce},
	{name: "reschedule what is ready", ready: isReady("a"), stays: []string{"a"}, call: reschedules(time.Minute), again: atOnce},
	{name: "cancel", ready: isScheduled("a"), call: cancelOf("a"), again: cancelled},
	{name: "cancel what is ready", ready: isReady("a"), call: cancelOf("a"), again: cancelled},
	{name: "requeue", ready: isDead("a"), stays: []string{"a"}, call: func(t *testing.T, db *notify.Store) error {
		_, err := storetest.Inspector(t, db).Requeue(t.Context(), mail, "a")
		return err
	}, again: func(t *testing.T, db *notify.Store) {
		storetest.Should(t, storetest.ErrOf(storetest.Inspector(t, db).Requeue(t.Context(), mail, "a")))
	}},
	{name: "pause until a time", ready: isReady("a"), stays: []string{"a"}, call: pausesSoon, again: resumed},
	{name: "give a pause another end", ready: both(isReady("a"), isPaused), stays: []string{"a"}, call: pausesSoon, again: resumed},
	{name: "carry the end of a pause", ready: both(isReady("a"), isPaused), stays: []string{"a"}, call: carries},
	{name: "carry what is due", ready: isOverdue("a"), stays: []string{"a"}, call: carries},
	{name: "carry all that is scheduled", ready: isOverdue("a", "b"), stays: []string{"a", "b"}, call: carries},
	{name: "carry what expired", ready: func(t *testing.T, db *notify.Store) {
		storetest.Publish(t, db, notify.Message{Topic: mail, ID: "a", Body: []byte("a"), Due: time.Now().Add(-time.Hour), TTL: time.Millisecond})
	}, call: carries},
	{name: "carry what was leased", ready: both(isLeased("a"), leaseEnds), stays: []string{"a"}, call: carries},
	{name: "publish one with a key", call: publishes(notify.Message{ID: "new", Key: "k"}), again: unpublished, stays: []string{"new"}},
	{name: "publish behind another of its key", ready: holdsKey, call: publishes(notify.Message{ID: "new", Key: "k"}), again: unpublished, stays: []string{"a", "new"}},
	{name: "acknowledge before another of its key", settles: true, ready: both(holdsKey, isBlocked), stays: []string{"a", "b"}, call: acknowledges},
	{name: "bury before another of its key", ready: both(holdsKey, isBlocked), stays: []string{"a", "b"}, call: inHand(func(c *subscribers.Claimer, d subscribers.Delivery) error {
		_, err := d.Bury(context.Background(), "a test")
		return err
	})},
	{name: "give back before another of its key", ready: both(holdsKey, isBlocked), stays: []string{"a", "b"}, call: inHand(func(c *subscribers.Claimer, d subscribers.Delivery) error {
		_, err := d.Nack(context.Background(), 0, "a test")
		return err
	})},
	{name: "let another of its key pass", ready: both(passes, both(holdsKey, isBlocked)), stays: []string{"a", "b"}, call: inHand(func(c *subscribers.Claimer, d subscribers.Delivery) error {
		_, err := d.Nack(context.Background(), 0, "a test")
		return err
	})},
	{name: "carry several of a key", ready: areDueOfOneKey, stays: []string{"a", "b"}, call: carries},
	{name: "carry what was leased before another of its key", ready: both(both(holdsKey, isBlocked), leaseEnds), stays: []string{"a", "b"}, call: carries},
	{name: "carry what was leased, and let another of its key pass", ready: both(both(passes, both(holdsKey, isBlocked)), leaseEnds), stays: []string{"a", "b"}, call: carries},
	{name: "reschedule what is blocked", ready: both(holdsKey, isBlocked), stays: []string{"a", "b"}, call: func(t *testing.T, db *notify.Store) error {
		_, err := storetest.Publisher(t, db).RescheduleIn(t.Context(), mail, "b", time.Millisecond)
		return err
	}},
	{name: "replace what is blocked", ready: both(holdsKey, isBlocked), stays: []string{"a", "b"}, call: publishes(notify.Message{ID: "b", Key: "other", IfExists: notify.Replace})},
	{name: "cancel what is blocked", ready: both(holdsKey, isBlocked), stays: []string{"a"}, call: cancelOf("b")},
	{name: "claim at a limit", ready: both(isLimited, isReady("a")), stays: []string{"a"}, call: func(t *testing.T, db *notify.Store) error {
		_, err := subscriberstest.Claimer(t, db).Claim(t.Context(), mail, subscribers.ClaimOptions{Max: 2, Lease: record.MinLease})
		return err
	}},
	{name: "acknowledge at a limit", settles: true, ready: both(isLimited, isLeased("a")), stays: []string{"a"}, call: acknowledges},
	{name: "give back at a limit", ready: both(isLimited, isLeased("a")), stays: []string{"a"}, call: inHand(func(c *subscribers.Claimer, d subscribers.Delivery) error {
		_, err := d.Nack(context.Background(), 0, "a test")
		return err
	})},
	{name: "release at a limit", ready: both(isLimited, isLeased("a")), stays: []string{"a"}, call: inHand(func(c *subscribers.Claimer, d subscribers.Delivery) error {
		_, err := c.ReleaseMany(context.Background(), mail, []subscribers.Delivery{d})
		return err
	})},
	{name: "carry what was leased at a limit", ready: both(both(isLimited, isLeased("a")), leaseEnds), stays: []string{"a"}, call: carries},
	{name: "requeue one with a key", ready: both(holdsKey, isBuried), stays: []string{"a"}, call: func(t *testing.T, db *notify.Store) error {
		_, err := storetest.Inspector(t, db).Requeue(t.Context(), mail, "a")
		return err
	}, again: func(t *testing.T, db *notify.Store) {
		storetest.Should(t, storetest.ErrOf(storetest.Inspector(t, db).Requeue(t.Context(), mail, "a")))
	}},
}

func holdsKey(t *testing.T, db *notify.Store) {
	storetest.Publish(t, db, notify.Message{Topic: mail, ID: "a", Body: []byte("a"), Key: "k"})
	claimIt(t, db)
}

// isBlocked publishes the message b, which is blocked by a.
func isBlocked(t *testing.T, db *notify.Store) {
	storetest.Publish(t, db, notify.Message{Topic: mail, ID: "b", Body: []byte("b"), Key: "k", TTL: time.Hour})
}

// isBuried buries the leased message.
func isBuried(t *testing.T, db *notify.Store) {
	d := held(t, db)
	storetest.Must(t, storetest.ErrOf(d.Bury(t.Context(), "a test")))
}

// isLimited lets one message of the topic be leased at a time, and many be claimed in a second.
func isLimited(t *testing.T, db *notify.Store) {
	storetest.Set(t, db, mail, notify.SettingsChange{Concurrency: new(1), Rate: new(record.MaxRate)})
}

// passes has messages that are put off let others of their keys pass.
func passes(t *testing.T, db *notify.Store) {
	storetest.Set(t, db, mail, notify.SettingsChange{OnRetry: new("pass")})
}

// areDueOfOneKey has two messages of a key be overdue.
func areDueOfOneKey(t *testing.T, db *notify.Store) {
	isOverdue("a", "b")(t, db)
	for _, id := range []string{"a", "b"} {
		storetest.Must(t, publishes(notify.Message{ID: id, Key: "k", IfExists: notify.Replace, Delay: time.Millisecond})(t, db))
	}
}

// acknowledges acknowledges the leased message.
var acknowledges = inHand(func(c *subscribers.Claimer, d subscribers.Delivery) error { return d.Ack(context.Background()) })

// isFollowed has a message follow the leased one.
func isFollowed(t *testing.T, db *notify.Store) {
	storetest.Publish(t, db, notify.Message{Topic: mail, ID: "a", Body: []byte("a"), Then: notify.After})
}

// isLastAttempt leases the message a for its last attempt.
func isLastAttempt(t *testing.T, db *notify.Store) {
	storetest.Publish(t, db, notify.Message{Topic: mail, ID: "a", Body: []byte("a"), MaxAttempts: 1})
	claimIt(t, db)
}

// isDropped leases the message a, which is dropped when it fails.
func isDropped(t *testing.T, db *notify.Store) {
	storetest.Publish(t, db, notify.Message{Topic: mail, ID: "a", Body: []byte("a"), MaxAttempts: 1, Fail: notify.FailDrop})
	claimIt(t, db)
}

// isArchived registers an archive, also of what is acknowledged, and a listener to deaths.
func isArchived(t *testing.T, db *notify.Store) {
	storetest.Must(t, db.Home().OpenArchive(t.Context(), 10))
	storetest.Set(t, db, mail, notify.SettingsChange{ArchiveAcked: new(true)})
	if _, _, err := db.Home().Register(t.Context(), "mourner", store.Registration{Pattern: record.DeadPrefix + mail, From: "now"}); err != nil {
		t.Fatal(err)
	}
}

// archived checks that an archive, if there is one, has the message a if it ended, and only then.
func archived(t *testing.T, db *notify.Store) {
	t.Helper()
	s, keys := db.Home(), db.Keys()
	if b, err := s.Backlog(t.Context()); err != nil || !b.Open {
		return
	}
	got, err := s.Endings(t.Context(), 10)
	storetest.Must(t, err)
	left := db.Client().HExists(t.Context(), keys.Messages(), mail+":a").Val()
	dead := db.Client().ZScore(t.Context(), keys.Dead(mail), mail+":a").Err() == nil
	leased := db.Client().ZScore(t.Context(), keys.Leased(), mail+":a").Err() == nil
	switch {
	case len(got) > 1, left && !dead && len(got) > 0:
		t.Errorf("the archive has %+v of what did not end", got)
	case len(got) == 0 && (!left || dead && !leased):
		t.Error("the archive has nothing of what ended")
	}
}

// isUnique leases the message a, whose id stays taken for a while.
func isUnique(t *testing.T, db *notify.Store) {
	storetest.Publish(t, db, notify.Message{Topic: mail, ID: "a", Body: []byte("a"), UniqueFor: time.Hour})
	claimIt(t, db)
}

// isOver acknowledges the message a, whose id was taken until just now.
func isOver(t *testing.T, db *notify.Store) {
	storetest.Publish(t, db, notify.Message{Topic: mail, ID: "a", Body: []byte("a"), UniqueFor: time.Millisecond})
	d := claimIt(t, db)
	storetest.Must(t, d.Ack(t.Context()))
	storetest.Eventually(t, "its id is free", func() bool {
		_, err := storetest.Inspector(t, db).Inspect(t.Context(), mail, "a")
		return errors.Is(err, notify.ErrNotFound)
	})
}

func both(one, two func(*testing.T, *notify.Store)) func(*testing.T, *notify.Store) {
	return func(t *testing.T, db *notify.Store) {
		one(t, db)
		two(t, db)
	}
}

// leaseEnds waits until the lease of the only leased message ends.
func leaseEnds(t *testing.T, db *notify.Store) {
	storetest.Eventually(t, "its lease ends", func() bool {
		now, err := db.Client().Time(t.Context()).Result()
		storetest.Must(t, err)
		n, err := db.Client().ZCount(t.Context(), db.Keys().Leased(), "-inf", fmt.Sprint(now.UnixMicro())).Result()
		return err == nil && n == 1
	})
}

// isToBeCopied publishes a message of a topic with a branch.
func isToBeCopied(t *testing.T, db *notify.Store) {
	_, name := record.SplitBranch(mailBranch)
	storetest.Set(t, db, mail, notify.SettingsChange{Branches: &name})
	storetest.Publish(t, db, notify.Message{Topic: mail, ID: "a", Body: []byte("a")})
}

// awaits has an inbox wait that takes hand-overs and answers none.
func awaits(topic string) func(*testing.T, *notify.Store) {
	return func(t *testing.T, db *notify.Store) {
		up := make(chan bool, 1)
		storetest.Run(t, func(ctx context.Context) error {
			db.Subscribe(ctx, func(e store.Event) {
				select {
				case up <- e.Kind == reach.Subscribed:
				default:
				}
			}, db.Of(mail).InboxChannel(reach.NewInbox("hung", true)))
			return nil
		})
		storetest.Receive(t, "the inbox is subscribed", up)
		inboxWaits(t, db, topic, "hung")
	}
}

// awaitsInVain has an inbox wait that nobody is subscribed to any more.
func awaitsInVain(topic string) func(*testing.T, *notify.Store) {
	return func(t *testing.T, db *notify.Store) { inboxWaits(t, db, topic, "gone") }
}

func inboxWaits(t *testing.T, db *notify.Store, topic, id string) {
	if got, err := db.Of(topic).Claim(t.Context(), store.Claim{Topic: topic, Max: 1, Inbox: reach.NewInbox(id, true)}); err != nil || !got.Short {
		t.Fatalf("the inbox does not wait: %+v, %v", got, err)
	}
}

// isHanded hands a message over to an inbox that does not answer.
func isHanded(id string) func(*testing.T, *notify.Store) {
	return func(t *testing.T, db *notify.Store) {
		awaits(mail)(t, db)
		storetest.Publish(t, db, notify.Message{Topic: mail, ID: id, Body: []byte(id)})
	}
}

func publishes(m notify.Message) func(*testing.T, *notify.Store) error {
	return func(t *testing.T, db *notify.Store) error {
		m := m
		m.Topic, m.Body = mail, []byte(m.ID)
		return storetest.Publisher(t, db).PublishMany(t.Context(), []notify.Message{m})[0].Err
	}
}

// ready returns a call as what prepares another one.
func ready(call func(*testing.T, *notify.Store) error) func(*testing.T, *notify.Store) {
	return func(t *testing.T, db *notify.Store) {
		storetest.Must(t, call(t, db))
	}
}

// anOutbox is the id of an outbox that has one row.
const anOutbox = "an-outbox"

// beginsRelay returns the first call of a relay.
func beginsRelay(token string) func(*testing.T, *notify.Store) error {
	return func(t *testing.T, db *notify.Store) error {
		return storetest.ErrOf(db.Of(mail).BeginRelay(t.Context(), store.Relay{Outbox: anOutbox, Token: token}))
	}
}

// relays returns a call that publishes what the row holds.
func relays(token string, m notify.Message) func(*testing.T, *notify.Store) error {
	m.Topic, m.Body = mail, []byte(m.ID)
	return func(t *testing.T, db *notify.Store) error {
		r := store.Relay{Outbox: anOutbox, Token: token, Batch: 1}
		row := notify.RelayRow{Message: m, Row: store.Row{Seq: 1, Called: time.UnixMicro(1)}}
		results, err := storetest.Publisher(t, db).Relay(t.Context(), db.Of(mail), r, []notify.RelayRow{row})
		return errors.Join(err, results[0].Err)
	}
}

// relayedAgain does what the next relay does: unless the row is noted, it publishes what that holds. Then that is there.
func relayedAgain(m notify.Message) func(*testing.T, *notify.Store) {
	return func(t *testing.T, db *notify.Store) {
		taken, err := db.Of(mail).BeginRelay(t.Context(), store.Relay{Outbox: anOutbox, Token: "second"})
		if err == nil && len(taken) == 0 {
			err = relays("second", m)(t, db)
		}
		storetest.Should(t, err)
		storetest.Should(t, storetest.ErrOf(storetest.Inspector(t, db).Inspect(t.Context(), mail, m.ID)))
	}
}

// unpublished repeats a publish that failed. It is refused if the message is there; then the message must be delivered.
func unpublished(t *testing.T, db *notify.Store) {
	pub := storetest.Publisher(t, db)
	if info, err := storetest.Inspector(t, db).Inspect(t.Context(), mail, "new"); errors.Is(err, notify.ErrNotFound) {
		storetest.Publish(t, db, notify.Message{Topic: mail, ID: "new", Body: []byte("new")})
	} else if err != nil || info.Fault != nil {
		t.Errorf("%+v, %v", info, err)
	} else if info.State == notify.Leased { // it was handed over, and comes when its lease ends
		return
	} else if _, err := pub.RescheduleIn(t.Context(), mail, "new", 0); err != nil {
		t.Error(err)
	}
}

// later is a due time after the end of the test, deadLetter a dead letter of another store.
var (
	later      = time.Date(2199, 1, 2, 3, 4, 5, 0, time.UTC)
	deadLetter = notify.Message{ID: "new", Restore: &notify.Restore{Died: later.AddDate(-190, 0, 0), Reason: "a test", AttemptsUsed: 3}}
)

// requeued restores a dead letter again, which is refused if it is there, and requeues it.
func requeued(t *testing.T, db *notify.Store) {
	if err := publishes(deadLetter)(t, db); err != nil && !errors.Is(err, notify.ErrExists) {
		t.Error(err)
	}
	if n, err := storetest.Inspector(t, db).Requeue(t.Context(), mail, "new"); err != nil || n != 1 {
		t.Errorf("requeued %d, %v", n, err)
	}
}

// announced repeats the announcement, which is refused if it is there.
func announced(t *testing.T, db *notify.Store) {
	err := publishes(notify.Message{ID: "new", Delay: time.Hour, Broadcast: true})(t, db)
	if err != nil && !errors.Is(err, notify.ErrExists) {
		t.Error(err)
	}
	storetest.Should(t, cancelOf("new")(t, db))
}

func reschedules(delay time.Duration) func(*testing.T, *notify.Store) error {
	return func(t *testing.T, db *notify.Store) error {
		_, err := storetest.Publisher(t, db).RescheduleIn(t.Context(), mail, "a", delay)
		return err
	}
}

func atOnce(t *testing.T, db *notify.Store) {
	storetest.Should(t, reschedules(0)(t, db))
}

func cancelOf(id string) func(*testing.T, *notify.Store) error {
	return func(t *testing.T, db *notify.Store) error {
		_, err := storetest.Publisher(t, db).Cancel(t.Context(), mail, id)
		return err
	}
}

// cancelled repeats a cancel that failed: nothing may be left afterwards.
func cancelled(t *testing.T, db *notify.Store) {
	if err := cancelOf("a")(t, db); err != nil && !errors.Is(err, notify.ErrNotFound) {
		t.Error(err)
	}
}

func isScheduled(id string) func(*testing.T, *notify.Store) {
	return func(t *testing.T, db *notify.Store) {
		storetest.Publish(t, db, notify.Message{Topic: mail, ID: id, Body: []byte(id), Delay: time.Hour, TTL: 24 * time.Hour})
	}
}

// pausesSoon pauses the topic until a time that comes soon.
func pausesSoon(t *testing.T, db *notify.Store) error {
	_, err := store.PauseUntil(t.Context(), db, mail, store.In(10*time.Millisecond))
	return err
}

func isPaused(t *testing.T, db *notify.Store) {
	storetest.Must(t, pausesSoon(t, db))
}

// resumed checks that a pause, if it began, has its end where the carrier finds it.
func resumed(t *testing.T, db *notify.Store) {
	settings, err := storetest.Inspector(t, db).Settings(t.Context(), mail)
	if err != nil || settings.Paused == settings.PausedUntil.IsZero() {
		t.Errorf("paused %v until %v, %v", settings.Paused, settings.PausedUntil, err)
	}
}

func isReady(id string) func(*testing.T, *notify.Store) {
	return func(t *testing.T, db *notify.Store) {
		storetest.Publish(t, db, notify.Message{Topic: mail, ID: id, Body: []byte(id), TTL: time.Hour})
	}
}

// isOverdue has messages be overdue, all since one time.
func isOverdue(ids ...string) func(*testing.T, *notify.Store) {
	return func(t *testing.T, db *notify.Store) {
		var all []notify.Message
		for _, id := range ids {
			all = append(all, notify.Message{Topic: mail, ID: id, Body: []byte(id), Delay: time.Millisecond})
		}
		storetest.Publish(t, db, all...)
		storetest.Eventually(t, "they are overdue", func() bool {
			now, err := db.Client().Time(t.Context()).Result()
			storetest.Must(t, err)
			n, err := db.Client().ZCount(t.Context(), db.Keys().ScheduledTopics(), "-inf", fmt.Sprint(now.UnixMilli())).Result()
			return err == nil && n == 1
		})
	}
}

func isBehind(t *testing.T, db *notify.Store) { isOverdue("before")(t, db) }

func isDead(id string) func(*testing.T, *notify.Store) {
	return func(t *testing.T, db *notify.Store) {
		isReady(id)(t, db)
		d := claimIt(t, db)
		storetest.Must(t, storetest.ErrOf(d.Bury(t.Context(), "a test")))
	}
}

func isLeased(id string) func(*testing.T, *notify.Store) {
	return func(t *testing.T, db *notify.Store) {
		isReady(id)(t, db)
		claimIt(t, db)
	}
}

// isTold leases the message a, and says how far the work on it is.
func isTold(t *testing.T, db *notify.Store) {
	isReady("a")(t, db)
	d := claimIt(t, db)
	storetest.Must(t, d.Extend(store.WithProgress(t.Context(), store.Progress{Percent: 40}), record.MinLease))
}

// stops cancels the message a, which is leased.
func stops(t *testing.T, db *notify.Store) error {
	_, err := storetest.Publisher(t, db).Cancel(t.Context(), mail, "a", store.CancelOptions{Stop: true})
	return err
}

// isStopped cancels the message a, which is leased.
func isStopped(t *testing.T, db *notify.Store) {
	storetest.Must(t, stops(t, db))
}

// isLeasedForGood leases the message a, which has no time to live.
func isLeasedForGood(t *testing.T, db *notify.Store) {
	storetest.Publish(t, db, notify.Message{Topic: mail, ID: "a", Body: []byte("a")})
	claimIt(t, db)
}

func claimIt(t *testing.T, db *notify.Store) subscribers.Delivery {
	t.Helper()
	ds, err := subscriberstest.Claimer(t, db).Claim(t.Context(), mail, subscribers.ClaimOptions{Max: 1, Lease: record.MinLease})
	if err != nil || len(ds) != 1 {
		t.Fatalf("claimed %v, %v", ds, err)
	}
	return ds[0]
}

// inHand returns a call on the leased message.
func inHand(f func(*subscribers.Claimer, subscribers.Delivery) error) func(*testing.T, *notify.Store) error {
	return func(t *testing.T, db *notify.Store) error {
		return f(subscriberstest.Claimer(t, db), held(t, db))
	}
}

// confirms confirms the only hand-over, as its subscriber does.
func confirms(t *testing.T, db *notify.Store) error {
	d := held(t, db)
	handed := store.Lease{Member: record.Member(mail, d.ID), Receipt: int64(d.Receipt), Handed: true}
	got, err := db.Of(mail).Extend(t.Context(), mail, "w", []store.Lease{handed}, record.MinLease)
	if len(got.Lost) > 0 {
		t.Errorf("the hand-over of %s is lost", d.ID)
	}
	return err
}

// held returns the leased message.
func held(t *testing.T, db *notify.Store) subscribers.Delivery {
	t.Helper()
	all, err := db.Client().ZRangeWithScores(t.Context(), db.Keys().Leased(), 0, 0).Result()
	if err != nil || len(all) != 1 {
		t.Fatalf("leased are %v, %v", all, err)
	}
	topic, id, err := record.SplitMember(all[0].Member.(string))
	storetest.Must(t, err)
	return *subscriberstest.Claimer(t, db).Delivery(topic, id, subscribers.Receipt(all[0].Score))
}

// carries runs a carrier until it meets a fault, or has nothing more to do.
func carries(t *testing.T, db *notify.Store) error {
	ctx, stop := context.WithTimeout(t.Context(), storetest.Deadline)
	defer stop()
	db.Observe(func(script string, _ time.Duration, err error) {
		if script == "carry" || err != nil { // what else it does follows at once
			time.AfterFunc(200*time.Millisecond, stop)
		}
	})
	c, err := carrier.New(db, carrier.Options{Lease: carrier.MinLease})
	storetest.Must(t, err)
	return c.Run(ctx)
}

// A write is what a script does to a key.
type write struct{ command, key string }

var writing = regexp.MustCompile(`(?i) lua\] "(set|del|hset|hdel|hsetnx|hincrby|zadd|zrem|zremrangebyrank|rename|xadd|unlink)" "([^"]+)"`)

// writes makes the call with all rights, and returns the writes of its scripts, without the election's.
func (h halfway) writes(t *testing.T, server *redisserver.Server) []write {
	db := h.store(t, server)
	conn, err := net.Dial("tcp", server.Addr())
	storetest.Must(t, err)
	defer conn.Close()
	end, lines := notify.NewID(), bufio.NewScanner(conn)
	fmt.Fprint(conn, "MONITOR\r\n")
	for lines.Scan() && lines.Text() != "+OK" {
	}
	storetest.Must(t, h.call(t, db))
	storetest.Must(t, db.Client().Echo(t.Context(), end).Err())
	var all []write
	for lines.Scan() && !strings.Contains(lines.Text(), end) {
		found := writing.FindStringSubmatch(lines.Text())
		if found == nil {
			continue
		}
		key, own := strings.CutPrefix(found[2], db.Keys().Base()) // beside other stores
		w := write{strings.ToLower(found[1]), key}
		if own && !slices.Contains([]string{"carrier", "epoch"}, w.key) && !slices.Contains(all, w) {
			all = append(all, w)
		}
	}
	return all
}

// store returns a store that is prepared for the call.
func (h halfway) store(t *testing.T, server *redisserver.Server) *notify.Store {
	t.Helper()
	db := openAt(t, server.URL(), "test-"+notify.NewID())
	storetest.Found(t, db)
	if h.ready != nil {
		h.ready(t, db)
	}
	return db
}

// stopAt makes the call, stopped at a write, and checks what becomes of the messages once all rights are back.
func (h halfway) stopAt(t *testing.T, server *redisserver.Server, at write) {
	db := h.store(t, server)
	limited := lacking(t, server, db, at)
	err := h.call(t, limited)
	for _, f := range findings(t, db, false) {
		if f.Fault == repair.NoPlace {
			t.Errorf("it stopped (%v) and left %s", err, f)
		}
	}
	archived(t, db)
	if h.again != nil {
		h.again(t, db)
	}
	run := storetest.Run(t, mustCarrier(t, db).Run)
	// A message that a carry left at its old place, too, and that is acknowledged before the next carry, would be buried there without a record.
	storetest.Eventually(t, "all that is due is carried", func() bool {
		now, err := db.Client().Time(t.Context()).Result()
		if err != nil {
			return false
		}
		n, err := db.Client().ZCount(t.Context(), db.KeysOf(mail).Scheduled(mail), "-inf", fmt.Sprint(now.UnixMilli())).Result()
		return err == nil && n == 0
	})
	h.delivered(t, db)
	run()
	findings(t, db, true)
	for _, f := range findings(t, db, false) {
		t.Errorf("repair leaves %s", f)
	}
}

func mustCarrier(t *testing.T, db *notify.Store) *carrier.Carrier {
	t.Helper()
	c, err := carrier.New(db, carrier.Options{Lease: carrier.MinLease, Sweep: 20 * time.Millisecond})
	storetest.Must(t, err)
	return c
}

// lacking returns the store for a user who loses the right to one write after connecting.
func lacking(t *testing.T, server *redisserver.Server, db *notify.Store, at write) *notify.Store {
	t.Helper()
	name := strings.ToLower(notify.NewID())
	rule := []any{"ACL", "SETUSER", name, "reset", "on", ">secret", "~*", "&*", "+@all"}
	storetest.Must(t, db.Client().Do(t.Context(), rule...).Err())
	limited := openAt(t, strings.Replace(server.URL(), "redis://", "redis://"+name+":secret@", 1), db.Keys().Prefix())
	storetest.Found(t, limited)
	rule = []any{"ACL", "SETUSER", name, "-" + at.command}
	keys := db.Keys()
	for _, key := range []string{
		keys.ScheduledTopics(), keys.Leased(), keys.Expiries(), keys.Messages(), keys.Attempts(), keys.ReadyTopics(), keys.Deaths(), keys.Topics(),
		keys.Broadcasts(), keys.Extras(), keys.Taken(), keys.Claims(), keys.Endings(), keys.Hooks(), keys.Ready(mail), keys.Ready(mailBranch), keys.Waiting(mail), keys.Waiting(mailBranch), keys.Dead(mail), keys.Scheduled(mail),
		keys.GroupedTopics(), keys.Grouped(mail), keys.GroupsOf(mail), keys.KeyedTopics(), keys.KeysOf(mail), keys.Seats(mail), keys.Line(mail), keys.Heads(mail), keys.Slots(mail),
		keys.Alarms(), keys.PausedTopics(), keys.TopicNames(), keys.SeenTopics(), keys.Relayed(),
	} {
		if key != keys.Base()+at.key {
			rule = append(rule, "(+"+at.command+" ~"+key+")")
		}
	}
	storetest.Must(t, db.Client().Do(t.Context(), rule...).Err())
	return limited
}

func findings(t *testing.T, db *notify.Store, apply bool) (all []repair.Finding) {
	t.Helper()
	storetest.Must(t, storetest.ErrOf(repair.Run(t.Context(), db, repair.Options{Apply: apply}, func(f repair.Finding) { all = append(all, f) })))
	return all
}

// delivered handles messages until all that stay were handled.
func (h halfway) delivered(t *testing.T, db *notify.Store) {
	t.Helper()
	c := subscriberstest.Claimer(t, db)
	got := make(map[string]bool)
	storetest.Eventually(t, fmt.Sprintf("%v are delivered", h.stays), func() bool {
		var ds []subscribers.Delivery
		for _, of := range []string{mail, mailBranch} {
			some, err := c.Claim(t.Context(), of, subscribers.ClaimOptions{Max: 10, Lease: time.Minute})
			storetest.Must(t, err)
			ds = append(ds, some...)
		}
		for _, d := range ds {
			if d.AfterGroup != "" {
				nobodyLives(t, db)
			}
			if got[d.ID] = true; string(d.Body) != d.ID {
				t.Errorf("the body of %s is %q", d.ID, d.Body)
			}
			storetest.Should(t, d.Ack(t.Context()))
		}
		return !slices.ContainsFunc(h.stays, func(id string) bool {
			info, err := storetest.Inspector(t, db).Inspect(t.Context(), mail, id)
			settled := info.State == notify.Dead && info.Reason == "a test" || h.settles && (errors.Is(err, notify.ErrNotFound) || info.State == notify.Done)
			return !got[id] && !settled
		})
	})
	page, err := storetest.Inspector(t, db).List(t.Context(), mail, notify.Dead, 10, "")
	storetest.Must(t, err)
	for _, letter := range page.Messages {
		if letter.Fault != nil {
			t.Errorf("%s is dead of %q: %v", letter.ID, letter.Reason, letter.Fault)
		}
	}
}
