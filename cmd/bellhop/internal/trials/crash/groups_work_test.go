package crash_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/subscribers"
)

// publishNumbers publishes what stands for each number up to CRASH_COUNT that is not whole yet, as often as it takes.
func publishNumbers(ctx context.Context, db *notify.Store, one func(ctx context.Context, pub *notify.Publisher, file *os.File, n int) error) error {
	pub, err := notify.NewPublisher(db)
	if err != nil {
		return err
	}
	count, err := strconv.Atoi(os.Getenv("CRASH_COUNT"))
	if err != nil {
		return err
	}
	file, before, err := openLedger()
	if err != nil {
		return err
	}
	defer file.Close()
	var all sync.WaitGroup
	var failed [importers]error
	for g := range importers {
		all.Go(func() {
			for n := g; n < count && failed[g] == nil; n += importers {
				if before.whole[strconv.Itoa(n)] {
					continue
				}
				failed[g] = cmp.Or(one(ctx, pub, file, n), book(file, "whole", n))
			}
		})
	}
	all.Wait()
	return errors.Join(failed[:]...)
}

// publishImport publishes the groups of a number, members and then their callback. One member after the other, or all at once: others are handled meanwhile.
func publishImport(ctx context.Context, pub *notify.Publisher, file *os.File, n int) error {
	all, size := importOf(n), 1
	if n%3 == 0 {
		size = mostRows
	}
	for i, one := range all {
		for some := range slices.Chunk(one.rows, size) {
			if err := publishRows(ctx, pub, one.messages(some), nil); err != nil {
				return err
			}
		}
		callback := notify.Message{Topic: partTopic, ID: one.callback, Body: []byte("x"), AfterGroup: one.topic + ":" + one.name, OnDead: one.onDead}
		if i+1 < len(all) {
			callback.Group = all[i+1].name
		}
		if err := publishRows(ctx, pub, []notify.Message{callback}, nil); err != nil {
			return err
		}
		for some := range slices.Chunk(one.late, size) {
			if err := publishRows(ctx, pub, one.messages(some), func(id string) error { return book(file, "joined", id) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// messages returns members. One whose group goes on without it dies as it fails first.
func (i importing) messages(ids []string) []notify.Message {
	all := make([]notify.Message, len(ids))
	for j, id := range ids {
		all[j] = notify.Message{Topic: i.topic, ID: id, Body: []byte("x"), Group: i.name}
		if i.unique {
			all[j].UniqueFor = time.Hour
		}
		if i.onDead == "go" && dies(id) {
			all[j].MaxAttempts = 1
		}
	}
	return all
}

// publishRows publishes messages until they are there, or were: a publisher that was killed may have published them. It calls joined, unless that is
// nil, with the id of each that was published now.
func publishRows(ctx context.Context, pub *notify.Publisher, messages []notify.Message, joined func(id string) error) error {
	for len(messages) > 0 {
		var again []notify.Message
		for i, r := range pub.PublishMany(ctx, messages) {
			switch {
			case r.Err == nil && joined != nil:
				if err := joined(messages[i].ID); err != nil {
					return err
				}
			case r.Err == nil, errors.Is(r.Err, notify.ErrExists), errors.Is(r.Err, store.ErrGroupComplete):
			case errors.Is(r.Err, notify.ErrInvalid), errors.Is(r.Err, store.ErrGroupTaken):
				return r.Err
			default:
				again = append(again, messages[i])
			}
		}
		messages = again
		if len(again) > 0 {
			time.Sleep(10 * time.Millisecond)
		}
	}
	return nil
}

// workOnImports handles rows and callbacks, and writes the ledger.
func workOnImports(ctx context.Context, db *notify.Store, logger *slog.Logger) error {
	pub, err := notify.NewPublisher(db)
	if err != nil {
		return err
	}
	file, _, err := openLedger()
	if err != nil {
		return err
	}
	sub, err := subscribers.NewSubscriber(db, subscribers.SubscriberOptions{Logger: logger})
	if err != nil {
		return err
	}
	handle := func(ctx context.Context, d *subscribers.Delivery) error {
		attempt, lives := d.Attempt, livesAgain(file.Name(), d.ID)
		if lives {
			attempt += secondLife
		}
		counts := d.Headers[store.HeaderAfterAcked] + "/" + d.Headers[store.HeaderAfterDead]
		if err := book(file, "begin", d.ID, attempt, counts, claimed(d).UnixMilli(), d.HandedOver); err != nil {
			return err
		}
		err := handleImport(ctx, pub, d.ID, lives)
		if err != nil && !errors.Is(err, errFails) {
			return err
		}
		return cmp.Or(book(file, "end", d.ID, attempt), err)
	}
	for _, topic := range []string{rowTopic, partTopic} {
		if err := sub.Handle(topic, handle, subscribers.HandleOptions{Concurrency: 16}); err != nil {
			return err
		}
	}
	return sub.Run(ctx)
}

// livesAgain reports whether a row that was dead is handled since dead letters were requeued.
func livesAgain(ledger, id string) bool {
	_, err := os.Stat(ledger + sinceRequeue)
	return strings.Contains(id, "dies-stop") && err == nil
}

// errFails is the error of a handler of a row that is to die.
var errFails = errors.New("a row that fails")

// handleImport is what a handler of a row does, as its id says: it fails, for good or until dead letters were requeued; or it adds members to its group.
func handleImport(ctx context.Context, pub *notify.Publisher, id string, lives bool) error {
	time.Sleep(rand.N(2 * time.Millisecond))
	number, rest, _ := strings.Cut(id, ".")
	n, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	switch {
	case strings.Contains(rest, "dies-go"):
		return errFails
	case strings.Contains(rest, "dies-stop") && !lives:
		return fmt.Errorf("%w: %w", errFails, subscribers.ErrBury)
	case strings.HasSuffix(rest, "adds0"):
		one := importOf(n)[0]
		return publishRows(ctx, pub, one.messages(one.added), nil)
	}
	return nil
}
