package doctor_test

import (
	"context"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// Workers and pushes that wait where nothing comes are reported: at a topic that has branches, and at a branch that it has not.
func TestMisplaced(t *testing.T) {
	w := newWard(t)
	const fine = "ok branches nobody waits at a topic that has them, or at one that is none → "
	w.expect("branches", fine)
	storetest.Set(t, w.store, "order.paid", notify.SettingsChange{Branches: new("mail,points")})
	sub, err := subscribers.NewSubscriber(w.store, subscribers.SubscriberOptions{})
	w.must(err)
	for _, topic := range []string{"order.paid", "order.paid@mail", "order.paid@mial", "plain", "plain@mail"} {
		w.must(sub.Handle(topic, func(context.Context, *subscribers.Delivery) error { return nil }, subscribers.HandleOptions{}))
	}
	storetest.Run(t, sub.Run)
	w.must(w.store.Home().PutPush(t.Context(), store.Push{Name: "crm", Topics: []string{"order.paid@crm", "order.*"}, URL: "https://x.example", Secrets: []string{"whsec_" + strings.Repeat("A", 32)}}))
	storetest.Eventually(t, "all are found", func() bool { return len(w.findings("branches")) == 4 })
	w.expect("branches",
		"warn branches 1 wait at order.paid, which has branches mail, points → bellhop work order.paid@mail",
		"warn branches order.paid@crm is no branch of order.paid (mail, points) → work one of those, or add it: bellhop topics set order.paid branches=+crm",
		"warn branches order.paid@mial is no branch of order.paid (mail, points) → work one of those, or add it: bellhop topics set order.paid branches=+mial",
		"warn branches plain@mail is no branch of plain, which has none → add it, or work the topic: bellhop topics set plain branches=+mail")
}
