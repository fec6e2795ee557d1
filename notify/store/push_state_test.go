package store_test

import (
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A try is noted of a push that fails, until that is changed. What is foreign there is left out.
func TestPushTried(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	home, key := s.Home(), s.Home().Keys().Pushes()
	crm := store.Push{Name: "crm", Topics: []string{"order.paid"}, URL: "https://crm.example", Secrets: []string{"whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}}
	put := func(failing *store.PushFailure) {
		t.Helper()
		err := home.ChangePush(t.Context(), "crm", func(*store.Push) (*store.Push, error) {
			p := crm
			p.Failing = failing
			return &p, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	try := func() {
		t.Helper()
		if err := home.PushTried(t.Context(), "crm", time.Hour, "HTTP 502 Bad Gateway: a b"); err != nil {
			t.Fatal(err)
		}
	}
	failing := func() *store.PushFailure {
		t.Helper()
		p, err := home.Push(t.Context(), "crm")
		if err != nil {
			t.Fatal(err)
		}
		return p.Failing
	}
	noted := func(want bool) {
		t.Helper()
		if there, err := s.Client().HExists(t.Context(), key, "*crm").Result(); err != nil || there != want {
			t.Errorf("a try is noted: %v, %v, want %v", there, err, want)
		}
	}
	try() // there is no push
	noted(false)
	put(nil)
	try() // it does not fail
	noted(false)
	since := time.Unix(1_700_000_000, 0).UTC()
	put(&store.PushFailure{Since: since, Answer: "EOF"})
	if f := failing(); f.Answer != "EOF" || !f.Next.IsZero() {
		t.Errorf("got %+v before a try", f)
	}
	before, err := s.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	try()
	if f := failing(); f.Answer != "HTTP 502 Bad Gateway: a b" || !f.Since.Equal(since) || f.Next.Before(before.Add(time.Hour-time.Millisecond)) || f.Next.After(before.Add(2*time.Hour)) {
		t.Errorf("got %+v", f)
	}
	for _, foreign := range []string{"", "soon HTTP 500", "1700000000000", "-1 HTTP 500", "1e99 HTTP 500"} {
		if err := s.Client().HSet(t.Context(), key, "*crm", foreign, "*none", "1 x").Err(); err != nil {
			t.Fatal(err)
		}
		if f := failing(); f.Answer != "EOF" || !f.Next.IsZero() {
			t.Errorf("got %+v of %q", f, foreign)
		}
	}
	if _, foreign, err := home.ExportPushes(t.Context()); err != nil || foreign != 0 {
		t.Errorf("%d pushes are foreign, %v", foreign, err)
	}
	put(nil)
	noted(false)
	put(&store.PushFailure{Since: since, Answer: "EOF"})
	try()
	if err := home.RemovePush(t.Context(), "crm"); err != nil {
		t.Fatal(err)
	}
	noted(false)
}
