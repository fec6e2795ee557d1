package subscribers_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// BenchmarkCancel measures how long it takes from the call that cancels a leased message with a stop until its handler's context has
// ended, and that call; with 1,000 other workers noted, too.
func BenchmarkCancel(b *testing.B) {
	for _, others := range []int{0, 1000} {
		b.Run(fmt.Sprint(others), func(b *testing.B) { benchmarkCancel(b, others) })
	}
}

func benchmarkCancel(b *testing.B, others int) {
	const n = 1000
	db := storetest.At(b, storetest.Server(b, "--save", "").URL(), "bench")
	carry(b, db)
	began, ended := make(chan struct{}), make(chan time.Time)
	handle(b, db, func(ctx context.Context, d *subscribers.Delivery) error {
		if err := d.Extend(ctx, time.Hour); err != nil { // which confirms a hand-over
			return err
		}
		began <- struct{}{}
		<-ctx.Done()
		ended <- time.Now()
		return nil
	})
	storetest.Eventually(b, "the worker is noted", func() bool {
		all, err := storetest.Inspector(b, db).Workers(b.Context())
		return err == nil && len(all) > 0
	})
	for i := range others {
		if _, _, err := db.Home().Arrive(b.Context(), store.Worker{ID: fmt.Sprint(i), Name: fmt.Sprint("worker-", i), Host: "host", Kind: "worker", Topics: []string{topic}}); err != nil {
			b.Fatal(err)
		}
	}
	pub := storetest.Publisher(b, db)
	for b.Loop() {
		var heard, calls storetest.Lateness
		for i := range n {
			id := fmt.Sprint(i)
			storetest.Publish(b, db, notify.Message{Topic: topic, ID: id})
			<-began
			at, called := time.Now(), make(chan error, 1)
			go func() {
				_, err := pub.Cancel(b.Context(), topic, id, store.CancelOptions{Stop: true})
				calls.Add(time.Since(at))
				called <- err
			}()
			heard.Add((<-ended).Sub(at))
			storetest.Must(b, <-called)
		}
		heard.Report(b, "stop")
		calls.Report(b, "call")
	}
}
