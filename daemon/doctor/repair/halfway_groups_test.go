package repair_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// groupHalfways are the calls that change who is in a group, or who waits for it: what waits comes late at most, and never while another is left.
var groupHalfways = []halfway{
	{name: "publish one in a group", call: publishes(notify.Message{ID: "new", Group: "g"}), again: unpublished, stays: []string{"new"}},
	{name: "publish one more in a group that is waited for", ready: both(isOfGroup(""), endsLast), call: publishes(notify.Message{ID: "new", Group: "g"}), again: unpublished, stays: []string{"new", "done"}},
	{name: "restore one in a group", call: publishes(notify.Message{ID: "new", Due: later, Group: "g", Restore: &notify.Restore{AttemptsUsed: 2}}), again: unpublished, stays: []string{"new"}},
	{name: "publish what waits for a group", ready: isGrouped, call: publishes(callback("")), again: waitsAgain, stays: []string{"a", "done"}},
	{name: "publish what waits for nobody", call: publishes(callback("")), again: waitsAgain, stays: []string{"done"}},
	{name: "have it wait for another group", ready: both(isGrouped, waitsFor("")), call: publishes(notify.Message{ID: "done", AfterGroup: mail + ":other", IfExists: notify.Replace}), again: waitsAgain, stays: []string{"a", "done"}},
	{name: "acknowledge the last of a group", settles: true, ready: isOfGroup(""), stays: []string{"a", "done"}, call: acknowledges},
	{name: "acknowledge the last of a group for an archive", settles: true, ready: both(isOfGroup(""), isArchived), stays: []string{"a", "done"}, call: acknowledges},
	{name: "keep the last of a group", settles: true, ready: isOfGroup(""), stays: []string{"a", "done"}, call: inHand(func(c *subscribers.Claimer, d subscribers.Delivery) error {
		_, err := d.AckWith(context.Background(), store.Result{Keep: time.Hour})
		return err
	})},
	{name: "follow the last of a group", settles: true, ready: both(isOfGroup(""), isFollowed), stays: []string{"a", "done"}, call: acknowledges},
	{name: "bury the last of a group", ready: isOfGroup("stop"), stays: []string{"a", "done"}, call: buries, again: requeuesA},
	{name: "bury the last of a group that goes", ready: isOfGroup("go"), stays: []string{"a", "done"}, call: buries},
	{name: "drop the last of a group", settles: true, ready: both(isGroupedAndDropped, waitsFor("")), stays: []string{"a", "done"}, call: inHand(func(c *subscribers.Claimer, d subscribers.Delivery) error {
		_, err := d.Nack(context.Background(), 0, "a test")
		return err
	})},
	{name: "carry the death of the last of a group that goes", ready: both(both(isGroupedLast, waitsFor("go")), leaseEnds), stays: []string{"done"}, call: carries},
	{name: "replace the last of a group", ready: both(isGrouped, waitsFor("")), stays: []string{"a", "done"}, call: publishes(notify.Message{ID: "a", IfExists: notify.Replace, Delay: time.Hour}), again: atOnce},
	{name: "give the last of a group another", ready: both(isGrouped, waitsFor("")), stays: []string{"a", "done"}, call: publishes(notify.Message{ID: "a", Group: "other", IfExists: notify.Replace, Delay: time.Hour}), again: atOnce},
	{name: "replace the last of a group within it", ready: both(isGrouped, waitsFor("")), stays: []string{"a", "done"}, call: publishes(notify.Message{ID: "a", Group: "g", IfExists: notify.Replace, Delay: time.Hour}), again: atOnce},
	{name: "replace what is dead in a group that goes", ready: both(isGroupedAndDead, waitsForOneMore("go")), stays: []string{"a", "b", "done"}, call: publishes(notify.Message{ID: "a", Group: "g", IfExists: notify.Replace, Delay: time.Hour}), again: livesAgain},
	{name: "cancel the last of a group", ready: both(isGrouped, waitsFor("")), call: cancelOf("a"), again: cancelled, stays: []string{"done"}},
	{name: "cancel what waits for a group", ready: both(isGrouped, waitsFor("")), stays: []string{"a"}, call: cancelOf("done"), again: atOnce},
	{name: "requeue one of a group that goes", ready: both(isGroupedAndDead, waitsForOneMore("go")), stays: []string{"a", "b", "done"}, call: func(t *testing.T, db *notify.Store) error {
		_, err := storetest.Inspector(t, db).Requeue(t.Context(), mail, "a")
		return err
	}, again: requeuesA},
	{name: "purge the last of a group", ready: both(isGroupedAndDead, waitsFor("")), stays: []string{"done"}, call: purgesA, again: func(t *testing.T, db *notify.Store) {
		storetest.Should(t, purgesA(t, db))
	}},
	{name: "forget a group", ready: both(isGrouped, waitsFor("")), stays: []string{"a"}, call: forgets, again: func(t *testing.T, db *notify.Store) {
		if err := forgets(t, db); err != nil && !errors.Is(err, store.ErrNoGroup) {
			t.Error(err)
		}
		atOnce(t, db)
	}},
	{name: "restore a group", ready: isRestored, stays: []string{"a", "done"}, call: restoresGroup, again: func(t *testing.T, db *notify.Store) {
		storetest.Should(t, restoresGroup(t, db))
		atOnce(t, db)
	}},
	{name: "copy the last of a group", ready: isCopied, stays: []string{"a", "done"}, call: carries},
	{name: "make what waits for a group due", ready: both(isOfGroup(""), endsLast), stays: []string{"done"}, call: carries},
}

// isCopied publishes the message a, which is in the group, for which another waits, and gives the topic branches, so that the carrier is to copy it.
func isCopied(t *testing.T, db *notify.Store) {
	storetest.Publish(t, db, notify.Message{Topic: mail, ID: "a", Body: []byte("a"), Group: "g"})
	waitsFor("")(t, db)
	_, name := record.SplitBranch(mailBranch)
	storetest.Set(t, db, mail, notify.SettingsChange{Branches: &name})
}

// callback returns a message that waits for the group.
func callback(onDead string) notify.Message {
	return notify.Message{ID: "done", AfterGroup: mail + ":g", OnDead: onDead, TTL: time.Hour}
}

// waitsFor has a message wait for the group.
func waitsFor(onDead string) func(*testing.T, *notify.Store) {
	return func(t *testing.T, db *notify.Store) {
		storetest.Must(t, publishes(callback(onDead))(t, db))
	}
}

// isOfGroup leases the message a, which is in the group, for which another waits.
func isOfGroup(onDead string) func(*testing.T, *notify.Store) {
	return func(t *testing.T, db *notify.Store) {
		storetest.Publish(t, db, notify.Message{Topic: mail, ID: "a", Body: []byte("a"), Group: "g"})
		claimIt(t, db)
		waitsFor(onDead)(t, db)
	}
}

// isGrouped publishes the message a, which is in the group, and due later.
func isGrouped(t *testing.T, db *notify.Store) {
	storetest.Publish(t, db, notify.Message{Topic: mail, ID: "a", Body: []byte("a"), Group: "g", Delay: time.Hour})
}

// isGroupedAndDropped leases the message a, which is in the group, and dropped when it fails.
func isGroupedAndDropped(t *testing.T, db *notify.Store) {
	storetest.Publish(t, db, notify.Message{Topic: mail, ID: "a", Body: []byte("a"), Group: "g", MaxAttempts: 1, Fail: notify.FailDrop})
	claimIt(t, db)
}

// isGroupedLast leases the message a, which is in the group, for its last attempt.
func isGroupedLast(t *testing.T, db *notify.Store) {
	storetest.Publish(t, db, notify.Message{Topic: mail, ID: "a", Body: []byte("a"), Group: "g", MaxAttempts: 1})
	claimIt(t, db)
}

// isGroupedAndDead buries the message a, which is in the group.
func isGroupedAndDead(t *testing.T, db *notify.Store) {
	storetest.Publish(t, db, notify.Message{Topic: mail, ID: "a", Body: []byte("a"), Group: "g"})
	claimIt(t, db)
	isBuried(t, db)
}

// isRestored restores the message a, which is in the group, and what waits for that, as an import does before the group itself.
func isRestored(t *testing.T, db *notify.Store) {
	done := callback("")
	done.Due, done.Restore = record.MaxDue, new(notify.Restore)
	for _, m := range []notify.Message{{ID: "a", Due: later, Group: "g", Restore: new(notify.Restore)}, done} {
		storetest.Must(t, publishes(m)(t, db))
	}
}

// restoresGroup restores the group behind its messages.
func restoresGroup(t *testing.T, db *notify.Store) error {
	return storetest.ErrOf(db.Of(mail).RestoreGroup(t.Context(), &store.ExportedGroup{Topic: mail, Name: "g", Acked: 1, Callback: mail + ":done"}))
}

func forgets(t *testing.T, db *notify.Store) error {
	_, _, err := store.ForgetGroup(t.Context(), db, mail, "g")
	return err
}

// waitsForOneMore has a message wait for the group, in which the message b is, too.
func waitsForOneMore(onDead string) func(*testing.T, *notify.Store) {
	return func(t *testing.T, db *notify.Store) {
		storetest.Publish(t, db, notify.Message{Topic: mail, ID: "b", Body: []byte("b"), Group: "g"})
		waitsFor(onDead)(t, db)
	}
}

// waitsAgain repeats a publish of what waits for the group, and has the message a, if there is one, be due.
func waitsAgain(t *testing.T, db *notify.Store) {
	m := callback("")
	m.IfExists = notify.Keep
	storetest.Should(t, publishes(m)(t, db))
	if err := reschedules(0)(t, db); err != nil && !errors.Is(err, notify.ErrNotFound) {
		t.Error(err)
	}
}

// buries buries the leased message.
var buries = inHand(func(c *subscribers.Claimer, d subscribers.Delivery) error {
	_, err := d.Bury(context.Background(), "a test")
	return err
})

func requeuesA(t *testing.T, db *notify.Store) {
	storetest.Should(t, storetest.ErrOf(storetest.Inspector(t, db).Requeue(t.Context(), mail, "a")))
}

// livesAgain has the message a be due, dead or not.
func livesAgain(t *testing.T, db *notify.Store) {
	requeuesA(t, db)
	atOnce(t, db)
}

func purgesA(t *testing.T, db *notify.Store) error {
	_, err := storetest.Inspector(t, db).Purge(t.Context(), mail, "a")
	return err
}

// endsLast acknowledges the leased message, so that nobody is left of the group.
func endsLast(t *testing.T, db *notify.Store) {
	storetest.Must(t, acknowledges(t, db))
}

// nobodyLives checks that no message of the group is left, but what is dead.
func nobodyLives(t *testing.T, db *notify.Store) {
	for _, of := range []string{mail, mailBranch} {
		for _, id := range []string{"a", "b", "new"} {
			if info, err := storetest.Inspector(t, db).Inspect(t.Context(), of, id); err == nil && info.Group == "g" && info.State != notify.Dead {
				t.Errorf("what waits for the group came, and %s of %s is %v", id, of, info.State)
			}
		}
	}
}
