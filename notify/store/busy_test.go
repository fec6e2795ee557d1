package store_test

import (
	"bytes"
	"cmp"
	"errors"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// seated has the seats and the line of the topic be checked behind each step, where most messages of a key have seats; 0: as many as there may ever be.
func seated(most int) storetest.Scenario {
	return storetest.Scenario{Topic: "ledger", After: func(p *storetest.Player) {
		p.Helper()
		k := &keyed{Player: p}
		for _, wrong := range k.read().check(most, cmp.Or(most, 100)) {
			p.Error(wrong)
		}
	}}
}

// exports exports all messages, by id.
func exports(p *storetest.Player) map[string]notify.Message {
	p.Helper()
	var lines bytes.Buffer
	storetest.Must(p, storetest.ErrOf(p.Inspector.Export(p.Context(), &lines, nil)))
	all := make(map[string]notify.Message)
	for line := range bytes.Lines(lines.Bytes()) {
		m, err := notify.ParseExported(bytes.TrimSpace(line))
		storetest.Must(p, err)
		all[m.ID] = m
	}
	return all
}

// move ID...: from here on there is another store, which has these messages of an export, in this order.
func move(p *storetest.Player, ids []string) string {
	all := exports(p)
	p.Use(storetest.Open(p))
	for _, id := range ids {
		storetest.Publish(p, p.Store, all[id])
	}
	return "ok"
}

// What is to be dropped if its key is busy is judged once, when it is due first; one that had its seat, and comes to another store behind one
// that waited for it, waits for that.
func TestIfBusy(t *testing.T) {
	t.Parallel()
	s := seated(1)
	s.Verbs = map[string]func(*storetest.Player, []string) string{"move": move, "follows": func(p *storetest.Player, ids []string) string {
		if next := exports(p)[ids[0]].Restore.Next; next != nil {
			return next.IfBusy
		}
		return "nothing"
	}}
	storetest.Play(t, `
== at once
	publish a key=k if_busy=drop = ready
	publish b key=k if_busy=drop = dropped:done
	is a=ready b=none
	counts ready=1 published=2 dropped=1
== when it is due, all together: the first has the seat
	publish a b c key=k if_busy=drop delay=1ms = scheduled scheduled scheduled
	pass 2ms
	carry
	is a=ready b=none c=none
	counts ready=1 published=3 dropped=2
== beside one that waits
	publish a b key=k = ready blocked
	publish c key=k if_busy=drop delay=1ms
	pass 2ms
	carry
	is a=ready b=blocked c=none
== not of another attempt
	set on_retry=pass
	publish a key=k if_busy=drop delay=1ms
	pass 2ms
	carry
	claim 1 = a
	publish b key=k                   # first: at once it waits behind what is overdue
	nack a delay=1ms
	pass 2ms
	carry
	is a=blocked b=ready
	counts ready=1 blocked=1 keys=1 published=2
== not once it was requeued
	publish a key=k if_busy=drop delay=1ms ttl=1ms
	pass 3ms                          # nobody carries it before it expires
	carry = dead:a
	publish b key=k
	requeue a
	is a=blocked b=ready
== an id that stays taken
	publish a key=k if_busy=drop
	publish b key=k if_busy=drop unique_for=1h = dropped:done
	is a=ready b=done
== a successor
	publish a key=k if_busy=drop
	claim 1 = a
	publish a key=k if_busy=drop then=after = leased
	ack a
	is a=ready
== replaced by one that waits
	publish a key=k if_busy=drop
	publish b key=k if_busy=drop delay=1h
	publish b key=k if_exists=replace = replaced:blocked
	is a=ready b=blocked
== exported
	publish b key=k if_busy=drop delay=1h
	move b
	redis HGET keys:ledger b = k ?
== exported once it was ready
	publish a key=k if_busy=drop
	publish b key=k = blocked
	move b a
	reschedule a delay=0s = blocked   # its time is over
	is a=blocked b=ready
	counts ready=1 blocked=1 keys=1 published=2
== exported while it was leased
	publish a key=k if_busy=drop
	claim 1 = a
	publish b key=k = blocked
	move b a
	reschedule a delay=0s = blocked   # its time is over
	is a=blocked b=ready
	counts ready=1 blocked=1 keys=1 published=2
== exported before another attempt
	publish a key=k if_busy=drop
	claim 1 = a
	nack a delay=1h
	publish b key=k = blocked
	move b a
	reschedule a delay=0s = blocked   # its time is over
	is a=blocked b=ready
	counts ready=1 blocked=1 keys=1 published=2
== exported while its attempt was put off
	publish a key=k if_busy=drop
	claim 1 = a
	defer a delay=1h
	publish b key=k = blocked
	move b a
	reschedule a delay=0s = blocked   # its time is over
	is a=blocked b=ready
	counts ready=1 blocked=1 keys=1 published=2
== exported while it followed
	publish a
	claim 1 = a
	publish a key=k if_busy=drop then=after = leased
	follows a = drop
	`, s)
}

func TestWrongIfBusy(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	publisher := storetest.Publisher(t, db)
	for name, m := range map[string]notify.Message{
		"without a key": {Topic: "ledger", IfBusy: "drop"},
		"another word":  {Topic: "ledger", Key: "k", IfBusy: "refuse"},
		"a broadcast":   {Topic: "ledger", IfBusy: "drop", Broadcast: true},
	} {
		if _, err := publisher.Publish(t.Context(), m); !errors.Is(err, notify.ErrInvalid) || !strings.Contains(err.Error(), "if_busy") {
			t.Errorf("%s: %v", name, err)
		}
	}
	storetest.Empty(t, db)
}
