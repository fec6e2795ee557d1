package store_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// extends extends a lease, and says how far the work is, unless that is nil.
func (l limited) extends(lease *store.Lease, p *store.Progress) {
	l.t.Helper()
	ctx := l.t.Context()
	if p != nil {
		ctx = store.WithProgress(ctx, *p)
	}
	e, err := l.shard.Extend(ctx, l.topic, "", []store.Lease{*lease}, time.Hour)
	if l.must(err); len(e.Lost) > 0 {
		l.t.Fatal("the lease is lost")
	}
	lease.Receipt = e.Receipts[0]
}

// progress checks how far the work on the message 0 is said to be.
func (l limited) progress(what string, want *store.Progress) {
	l.t.Helper()
	all, err := l.shard.Inspect(l.t.Context(), l.topic, []string{l.topic + ":0"})
	l.must(err)
	if diff := cmp.Diff(want, all[0].Progress); diff != "" {
		l.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// What is said of the work stays through later extensions, and is gone with the lease, however that ends, and whatever leases follow.
func TestProgress(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(l limited, lease store.Lease) error{
		"released": func(l limited, lease store.Lease) error {
			_, err := l.shard.Release(t.Context(), l.topic, reach.Inbox{}, 0, []store.Return{{Lease: lease}})
			return err
		},
		"rejected": func(l limited, lease store.Lease) error {
			_, err := l.shard.Nack(t.Context(), l.topic, store.Nack{Lease: lease})
			return err
		},
		"put off": func(l limited, lease store.Lease) error {
			_, err := l.shard.Nack(t.Context(), l.topic, store.Nack{Lease: lease, Keep: true})
			return err
		},
		"dead and requeued": func(l limited, lease store.Lease) error {
			if _, err := l.shard.Nack(t.Context(), l.topic, store.Nack{Lease: lease, Bury: true}); err != nil {
				return err
			}
			_, err := l.shard.Requeue(t.Context(), l.topic, store.Letters{Members: []string{l.topic + ":0"}})
			return err
		},
		"expired": func(l limited, lease store.Lease) error {
			_, err := l.shard.Extend(t.Context(), l.topic, "", []store.Lease{lease}, time.Millisecond)
			return err
		},
		"acknowledged, and published again": func(l limited, lease store.Lease) error {
			_, err := l.shard.Ack(t.Context(), l.topic, []store.Lease{lease})
			storetest.Publish(l.t, l.db, notify.Message{Topic: l.topic, ID: "0"})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := openLimited(t, store.SettingsChange{}, 1)
			lease := l.claims("", 1, 1)[0].Lease
			l.progress("claimed", nil)
			l.extends(&lease, &store.Progress{Percent: 0})
			l.progress("it begins", &store.Progress{})
			note := "page 2, lease=5 of µ ünï " + strings.Repeat("x", 170)
			l.extends(&lease, &store.Progress{Percent: 40, Note: note})
			l.extends(&lease, nil)
			l.progress("later", &store.Progress{Percent: 40, Note: note})
			l.must(end(l, lease))
			l.passes(2 * time.Millisecond)
			l.carry(false)
			l.progress("the lease is over", nil)
			l.must(l.db.Client().HIncrBy(t.Context(), l.db.KeysOf(l.topic).Topics(), l.topic+":released", 9).Err()) // so the digit is that of before
			next := l.claims("", 1, 1)[0].Lease
			l.progress("the next lease", nil)
			l.extends(&next, &store.Progress{Percent: 100, Note: "b"})
			l.progress("of the next lease", &store.Progress{Percent: 100, Note: "b"})
			_, err := l.shard.Ack(t.Context(), l.topic, []store.Lease{next})
			l.must(err)
			if n := l.db.Client().Exists(t.Context(), l.db.KeysOf(l.topic).Extras()).Val(); n > 0 {
				t.Error("something is noted still")
			}
		})
	}
}

// A wrong progress is refused, and the lease stays as it is; a lost lease takes none; what is foreign is none.
func TestWrongProgress(t *testing.T) {
	t.Parallel()
	l := openLimited(t, store.SettingsChange{}, 1)
	lease := l.claims("", 1, 1)[0].Lease
	for want, p := range map[string]store.Progress{
		"progress": {Percent: -1}, "progress ": {Percent: 101}, "note": {Note: strings.Repeat("é", 101)}, "note ": {Note: "\xff"}, "note  ": {Note: "a\nb"}, "note   ": {Note: "a\u00a0b"},
		"progress note": {Percent: 101, Note: "\x1f"},
	} {
		_, err := l.shard.Extend(store.WithProgress(t.Context(), p), l.topic, "", []store.Lease{lease}, time.Hour)
		var fields []string
		for _, f := range fault.All(err) {
			fields = append(fields, f.Field)
		}
		if strings.Join(fields, " ") != strings.TrimSpace(want) || !errors.Is(err, notify.ErrInvalid) {
			t.Errorf("%+v: %v", p, err)
		}
	}
	l.progress("after wrong ones", nil)
	lost := lease
	lost.Receipt++
	e, err := l.shard.Extend(store.WithProgress(t.Context(), store.Progress{Percent: 1}), l.topic, "", []store.Lease{lost}, time.Hour)
	if err != nil || len(e.Lost) != 1 {
		t.Errorf("lost are %v, %v", e.Lost, err)
	}
	l.progress("after a lost lease", nil)
	for _, foreign := range []string{" progress=", " progress=40", " progress=x,0,0,", " progress=101,0,0,a", " progress=40,0,0"} {
		l.must(l.db.Client().HSet(t.Context(), l.db.KeysOf(l.topic).Extras(), l.topic+":0", foreign).Err())
		l.progress(foreign, nil)
	}
	l.extends(&lease, &store.Progress{Percent: 7})
	l.progress("in place of a foreign one", &store.Progress{Percent: 7})
}

// An extension that says nothing of the work makes the same commands as ever.
func TestProgressCosts(t *testing.T) {
	l := openLimited(t, store.SettingsChange{}, 1)
	own := storetest.At(t, storetest.Lend(t), "")
	storetest.Found(t, own)
	l.db, l.shard = own, own.Of(l.topic)
	storetest.Publish(t, own, notify.Message{Topic: l.topic, ID: "0"})
	lease := l.claims("", 1, 1)[0].Lease
	calls := func() (n int) {
		l.must(own.Client().ConfigResetStat(t.Context()).Err())
		l.extends(&lease, nil)
		for _, line := range strings.Split(own.Client().Info(t.Context(), "commandstats").Val(), "\n") {
			if strings.HasPrefix(line, "cmdstat_") && !strings.HasPrefix(line, "cmdstat_info") && !strings.HasPrefix(line, "cmdstat_config") {
				n++
			}
		}
		return n
	}
	calls()
	if n := calls(); n != 6 {
		t.Errorf("an extension makes %d kinds of commands, want fcall, get, time, zmscore, exists and zadd", n)
	}
}
