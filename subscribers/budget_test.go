package subscribers_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/budget"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// Handlers of several topics that share a budget have no more in hand together, by number or by bytes, than that: nothing else is claimed.
// What is freed goes on, also to another topic, and in the end all is handled.
func TestBudget(t *testing.T) {
	t.Parallel()
	const body = notify.DefaultMaxBody
	for name, c := range map[string]struct {
		budget *budget.Budget
		most   int64
	}{
		"messages":  {budget.New(3, 0), 3},
		"bytes":     {budget.New(0, 4*body), 4},
		"of a part": {budget.New(100, 0).Part(2, 0), 2},
		"of all":    {budget.New(2, 0).Part(100, 0), 2},
		"too small": {budget.New(0, 1), 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := storetest.Open(t)
			carry(t, db)
			const each = 15
			topics := []string{"first", "second"}
			for _, topic := range topics {
				for i := range each {
					storetest.Publish(t, db, notify.Message{Topic: topic, ID: fmt.Sprint("m", i), Body: make([]byte, body)})
				}
			}
			leased := func() (n int64) {
				for _, topic := range topics {
					counts, err := storetest.Count(db, topic)
					storetest.Must(t, err)
					n += counts.Leased
				}
				return n
			}
			s := subscriberstest.Subscriber(t, db)
			begun, end := make(chan struct{}, 2*each), make(chan struct{})
			var mu sync.Mutex
			handled := 0
			for _, topic := range topics {
				storetest.Must(t, s.Handle(topic, func(context.Context, *subscribers.Delivery) error {
					begun <- struct{}{}
					<-end
					mu.Lock()
					defer mu.Unlock()
					handled++
					return nil
				}, subscribers.HandleOptions{Concurrency: 10, Budget: c.budget}))
			}
			storetest.Run(t, s.Run)
			for range c.most {
				storetest.Receive(t, "as many as there is room for are handled", begun)
			}
			storetest.Publish(t, db, notify.Message{Topic: "first", ID: "another", Body: make([]byte, body)})
			if n := leased(); n != c.most {
				t.Errorf("%d are leased", n)
			}
			for range 2*each + 1 - c.most {
				if len(begun) > 0 {
					t.Error("more are handled")
				}
				end <- struct{}{}
				storetest.Receive(t, "the next is handled", begun)
			}
			close(end)
			storetest.Eventually(t, "all are handled", func() bool {
				mu.Lock()
				defer mu.Unlock()
				return handled == 2*each+1 && leased() == 0
			})
		})
	}
}

// So have named listeners.
func TestBudgetOfBroadcasts(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	l, err := subscribers.NewListener(db)
	storetest.Must(t, err)
	budget, begun, end, started := budget.New(3, 0), make(chan struct{}, 100), make(chan struct{}), make(chan struct{}, 2)
	for _, name := range []string{"one", "two"} {
		storetest.Run(t, func(ctx context.Context) error {
			return l.Listen(ctx, "prices", func(context.Context, *subscribers.Broadcast) error {
				begun <- struct{}{}
				<-end
				return nil
			}, subscribers.ListenOptions{Name: name, Concurrency: 10, Budget: budget, OnStart: func(subscribers.Bookmark) { started <- struct{}{} }})
		})
		storetest.Receive(t, name+" listens", started)
	}
	for i := range 10 {
		storetest.Must(t, storetest.ErrOf(storetest.Publisher(t, db).Broadcast(t.Context(), notify.Message{Topic: "prices", ID: fmt.Sprint("b", i)})))
	}
	for range 3 {
		storetest.Receive(t, "as many as there is room for are handled", begun)
	}
	for range 17 {
		if n := len(begun); n > 0 {
			t.Fatalf("%d more are handled", n)
		}
		end <- struct{}{}
		storetest.Receive(t, "the next is handled", begun)
	}
	close(end)
}
