package notify_test

import (
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// BenchmarkAwait measures how long after its acknowledgement was sent a message's Await
// is answered, with the result.
func BenchmarkAwait(b *testing.B) {
	pub, db := open(b)
	publish(b, pub, notify.Message{Topic: "other", ID: "a", Delay: time.Hour})
	watch, err := db.Of("other").Watch(b.Context(), "other:a") // keeps the subscription, as others who wait do
	storetest.Must(b, err)
	defer watch.Close()
	answered := make(chan time.Time)
	var late storetest.Lateness
	for b.Loop() {
		publish(b, pub, message("a", time.Time{}))
		d := claim(b, db, 1)[0]
		go func() {
			storetest.Should(b, storetest.ErrOf(pub.Await(b.Context(), topic, "a")))
			answered <- time.Now()
		}()
		storetest.Eventually(b, "it is awaited", func() bool { return db.Client().HExists(b.Context(), db.KeysOf(topic).Extras(), topic+":a").Val() })
		sent := time.Now() // the end is later than this
		storetest.Must(b, storetest.ErrOf(d.AckWith(b.Context(), notify.AckResult{Body: storetest.Payload, Keep: time.Hour})))
		late.Add((<-answered).Sub(sent))
		storetest.Must(b, storetest.ErrOf(pub.Cancel(b.Context(), topic, "a")))
	}
	late.Report(b, "ack-to-answer")
}
