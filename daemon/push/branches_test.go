package push_test

import (
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A push has the messages of a branch that it names; a pattern that matches the topic has those of none.
func TestPushesOfBranches(t *testing.T) {
	t.Parallel()
	s, e, _ := matching(t, 1)
	storetest.Set(t, s, "order.paid", notify.SettingsChange{Branches: new("mail,points")})
	mail := newEndpoint(t)
	put(t, s, store.Push{Name: "mail", Topics: []string{"order.paid@mail"}, URL: mail.URL, Timeout: time.Hour})
	storetest.Publish(t, s, notify.Message{Topic: "order.paid", ID: "a"})
	wantPushed(t, mail, "order.paid@mail:a")
	pushes(t, s, e, "order.sent", "a")
	waiting(t, s, "order.sent", 1)
	if c, err := storetest.Count(s, "order.paid@points"); err != nil || c.Ready != 1 || c.Waiting != 0 {
		t.Errorf("%+v %v", c, err)
	}
}
