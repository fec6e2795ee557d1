package notify_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

func ExampleOpen() {
	store, err := notify.Open(notify.Config{
		URL:    storetest.URL(), // such as redis://127.0.0.1:6379
		Prefix: "example-open",
	})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	if err := store.Check(context.Background()); err != nil {
		log.Fatal(err) // it cannot be reached, is too old, or may evict messages
	}
	fmt.Println(store.Prefix())
	// Output: example-open
}

func ExamplePublisher_Publish() {
	ctx := context.Background()
	store, err := notify.Open(notify.Config{URL: storetest.URL(), Prefix: "example-publish"})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	pub, err := notify.NewPublisher(store)
	if err != nil {
		log.Fatal(err)
	}

	reminder := notify.Message{
		Topic: "order.timeout",
		ID:    "order-4711",
		Body:  []byte(`{"order":4711}`),
		Delay: 30 * time.Minute,
	}
	p, err := pub.Publish(ctx, reminder)
	fmt.Println(p.ID, p.State, err)

	_, err = pub.Publish(ctx, reminder) // to publish again is safe
	fmt.Println(errors.Is(err, notify.ErrExists))
	// Output:
	// order-4711 scheduled <nil>
	// true
}

func ExamplePublisher_PublishMany() {
	ctx := context.Background()
	store, err := notify.Open(notify.Config{URL: storetest.URL(), Prefix: "example-many"})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	pub, err := notify.NewPublisher(store)
	if err != nil {
		log.Fatal(err)
	}

	results := pub.PublishMany(ctx, []notify.Message{
		{Topic: "mail", ID: "welcome", Body: []byte("hello")},
		{Topic: "mail", ID: "tips", Body: []byte("did you know?"), Delay: 24 * time.Hour},
		{Topic: "mail", ID: "a wrong one"},
	})
	for _, r := range results {
		if r.Err != nil {
			fmt.Println(r.ID, r.Err)
			continue
		}
		fmt.Println(r.ID, r.State)
	}
	// Output:
	// welcome ready
	// tips scheduled
	// a wrong one invalid id "a wrong one": use letters, digits and . _ ~ : -, but not . or .. alone, which no URL can name
}

func ExamplePublisher_Cancel() {
	ctx := context.Background()
	store, err := notify.Open(notify.Config{URL: storetest.URL(), Prefix: "example-cancel"})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	pub, err := notify.NewPublisher(store)
	if err != nil {
		log.Fatal(err)
	}
	m := notify.Message{Topic: "order.timeout", ID: "order-4711", Body: []byte("x"), Delay: 30 * time.Minute}
	if _, err := pub.Publish(ctx, m); err != nil {
		log.Fatal(err)
	}

	was, err := pub.Cancel(ctx, "order.timeout", "order-4711") // it was paid
	switch {
	case errors.Is(err, notify.ErrLeased):
		fmt.Println("too late: a worker has it")
	case errors.Is(err, notify.ErrNotFound):
		fmt.Println("too late: it was handled")
	case err != nil:
		log.Fatal(err)
	default:
		fmt.Println("it was", was)
	}
	// Output: it was scheduled
}

func ExamplePublisher_RescheduleAt() {
	ctx := context.Background()
	store, err := notify.Open(notify.Config{URL: storetest.URL(), Prefix: "example-reschedule"})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	pub, err := notify.NewPublisher(store)
	if err != nil {
		log.Fatal(err)
	}
	m := notify.Message{Topic: "order.timeout", ID: "order-4711", Body: []byte("x"), Delay: 30 * time.Minute}
	if _, err := pub.Publish(ctx, m); err != nil {
		log.Fatal(err)
	}

	due := time.Date(2199, 12, 31, 23, 59, 59, 0, time.UTC)
	p, err := pub.RescheduleAt(ctx, "order.timeout", "order-4711", due)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(p.State, p.Due.UTC())
	// Output: scheduled 2199-12-31 23:59:59 +0000 UTC
}

func ExampleInspector_Messages() {
	ctx := context.Background()
	store, err := notify.Open(notify.Config{URL: storetest.URL(), Prefix: "example-messages"})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	pub, err := notify.NewPublisher(store)
	if err != nil {
		log.Fatal(err)
	}
	for _, id := range []string{"one", "two", "three"} {
		if _, err := pub.Publish(ctx, notify.Message{Topic: "mail", ID: id, Body: []byte("x"), Delay: time.Hour}); err != nil {
			log.Fatal(err)
		}
	}
	inspector, err := notify.NewInspector(store)
	if err != nil {
		log.Fatal(err)
	}

	for info, err := range inspector.Messages(ctx, "mail", notify.Scheduled) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(info.ID)
	}
	// Unordered output:
	// one
	// two
	// three
}

// A broadcast reaches everyone who listens to its topic when it is due.
func ExamplePublisher_Broadcast() {
	store, err := notify.Open(notify.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	pub, err := notify.NewPublisher(store)
	if err != nil {
		log.Fatal(err)
	}
	p, err := pub.Broadcast(context.Background(), notify.Message{
		Topic: "prices.gold",
		Body:  []byte("42"),
		Delay: 2 * time.Second,
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(p.ID, "is sent at", p.Due)
}

// Which field of an input was refused.
func ExampleFault() {
	_, err := notify.ParseLine([]byte(`{"topic":"orders","delay":"soon","body":""}`))
	var fault *notify.Fault
	if errors.As(err, &fault) {
		fmt.Println("the field is", fault.Field)
	}
	fmt.Println(err)
	// Output:
	// the field is delay
	// invalid delay "soon": write a duration such as 500ms, 90s, 1h30m or 1d
}

func ExampleInspector_Inspect() {
	ctx := context.Background()
	store, err := notify.Open(notify.Config{URL: storetest.URL(), Prefix: "example-inspect"})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	pub, err := notify.NewPublisher(store)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := pub.Publish(ctx, notify.Message{Topic: "mail", ID: "tips", Body: []byte("did you know?"), Delay: time.Hour}); err != nil {
		log.Fatal(err)
	}
	inspector, err := notify.NewInspector(store)
	if err != nil {
		log.Fatal(err)
	}
	info, err := inspector.Inspect(ctx, "mail", "tips")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %s\n", info.State, info.Body)
	// Output: scheduled: did you know?
}

func ExampleInspector_Set() {
	ctx := context.Background()
	store, err := notify.Open(notify.Config{URL: storetest.URL(), Prefix: "example-set"})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	inspector, err := notify.NewInspector(store)
	if err != nil {
		log.Fatal(err)
	}
	set, err := inspector.Set(ctx, "mail", notify.SettingsChange{Attempts: new(5), Lease: new(time.Minute)})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(set.Attempts, set.Lease, set.Own)
	// Output: 5 1m0s [attempts lease]
}

func ExampleInspector_Requeue() {
	ctx := context.Background()
	store, err := notify.Open(notify.Config{URL: storetest.URL(), Prefix: "example-requeue"})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	inspector, err := notify.NewInspector(store)
	if err != nil {
		log.Fatal(err)
	}
	n, err := inspector.Requeue(ctx, "order.timeout", "order-4711") // which is not dead, so it is passed over
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("requeued", n)
	// Output: requeued 0
}
