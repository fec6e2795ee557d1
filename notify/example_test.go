package notify_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
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
	store, pub, _ := clients()
	defer store.Close()

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
	store, pub, _ := clients()
	defer store.Close()
	publishAll(pub, notify.Message{Topic: "order.timeout", ID: "order-4711", Delay: 30 * time.Minute})

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

func ExamplePublisher_RescheduleIn() {
	ctx := context.Background()
	store, pub, _ := clients()
	defer store.Close()
	publishAll(pub, notify.Message{Topic: "order.timeout", ID: "order-4711", Delay: 30 * time.Minute})

	p, err := pub.RescheduleIn(ctx, "order.timeout", "order-4711", 0) // now
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(p.State)
	// Output: ready
}

func ExamplePublisher_RescheduleAt() {
	ctx := context.Background()
	store, pub, _ := clients()
	defer store.Close()
	publishAll(pub, notify.Message{Topic: "order.timeout", ID: "order-4711", Delay: 30 * time.Minute})

	due := time.Date(2199, 12, 31, 23, 59, 59, 0, time.UTC)
	p, err := pub.RescheduleAt(ctx, "order.timeout", "order-4711", due)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(p.State, p.Due.UTC())
	// Output: scheduled 2199-12-31 23:59:59 +0000 UTC
}

// A broadcast reaches everyone who listens to its topic when it is due.
func ExamplePublisher_Broadcast() {
	ctx := context.Background()
	store, pub, _ := clients()
	defer store.Close()

	p, err := pub.Broadcast(ctx, notify.Message{Topic: "prices.gold", ID: "noon", Body: []byte("42"), Delay: time.Hour})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(p.ID, p.State)
	// Output: noon scheduled
}

func ExampleInspector_Inspect() {
	ctx := context.Background()
	store, pub, inspector := clients()
	defer store.Close()
	publishAll(pub, notify.Message{Topic: "mail", ID: "tips", Body: []byte("did you know?"), Delay: time.Hour})

	info, err := inspector.Inspect(ctx, "mail", "tips")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %s\n", info.State, info.Body)
	// Output: scheduled: did you know?
}

func ExampleInspector_Messages() {
	ctx := context.Background()
	store, pub, inspector := clients()
	defer store.Close()
	publishAll(pub,
		notify.Message{Topic: "mail", ID: "later", Delay: 2 * time.Hour},
		notify.Message{Topic: "mail", ID: "soon", Delay: time.Hour})

	for info, err := range inspector.Messages(ctx, "mail", notify.Scheduled) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(info.ID)
	}
	// Output:
	// soon
	// later
}

func ExampleInspector_Count() {
	ctx := context.Background()
	store, pub, inspector := clients()
	defer store.Close()
	publishAll(pub, notify.Message{Topic: "mail"}, notify.Message{Topic: "mail", Delay: time.Hour})

	counts, err := inspector.Count(ctx, "mail", "sms")
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range counts {
		fmt.Println(c.Topic, c.Scheduled, "scheduled,", c.Ready, "ready")
	}
	// Output:
	// mail 1 scheduled, 1 ready
	// sms 0 scheduled, 0 ready
}

func ExampleInspector_Topics() {
	ctx := context.Background()
	store, pub, inspector := clients()
	defer store.Close()
	publishAll(pub, notify.Message{Topic: "order.timeout"}, notify.Message{Topic: "order.paid"}, notify.Message{Topic: "mail"})

	orders, err := notify.ParsePattern("order.>")
	if err != nil {
		log.Fatal(err)
	}
	for c, err := range inspector.Topics(ctx, orders) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(c.Topic, c.Ready)
	}
	// Output:
	// order.paid 1
	// order.timeout 1
}

func ExampleInspector_Survey() {
	ctx := context.Background()
	store, pub, inspector := clients()
	defer store.Close()
	publishAll(pub, notify.Message{Topic: "mail"}, notify.Message{Topic: "sms", Delay: time.Hour})

	survey, err := inspector.Survey(ctx, 10) // up to 10 topics in each list
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(survey.Messages, "messages in", survey.Topics, "topics")
	for _, n := range survey.Overdue {
		fmt.Println(n.Topic, "has ready messages")
	}
	// Output:
	// 2 messages in 2 topics
	// mail has ready messages
}

func ExampleInspector_Set() {
	ctx := context.Background()
	store, _, inspector := clients()
	defer store.Close()

	set, err := inspector.Set(ctx, "mail", notify.SettingsChange{Attempts: new(5), Lease: new(time.Minute)})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(set.Attempts, set.Lease, set.Own)
	// Output: 5 1m0s [attempts lease]
}

// The handler of a message refused it for good; now the cause is removed.
func ExampleInspector_Requeue() {
	ctx := context.Background()
	store, pub, inspector := clients()
	defer store.Close()
	publishAll(pub, notify.Message{Topic: "mail", ID: "welcome"})
	buryFirst(store, "mail", "no such address")

	for info, err := range inspector.Messages(ctx, "mail", notify.Dead) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(info.ID, "died:", info.Reason)
	}
	n, err := inspector.Requeue(ctx, "mail", "welcome", "unknown") // skips ids that are not dead
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("requeued", n)
	// Output:
	// welcome died: no such address
	// requeued 1
}

func ExampleInspector_Listeners() {
	ctx := context.Background()
	store, _, inspector := clients()
	defer store.Close()
	listenOnce(store, "invoices", "order.>")

	listeners, err := inspector.Listeners(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, l := range listeners {
		fmt.Println(l.Name, "listens to", l.Pattern, "and is behind in", l.Behind, "topics")
	}
	if err := inspector.RemoveListener(ctx, "invoices"); err != nil {
		log.Fatal(err)
	}
	// Output: invoices listens to order.> and is behind in 0 topics
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

// clients opens a store of an example's own, for a publisher and an inspector.
func clients() (*notify.Store, *notify.Publisher, *notify.Inspector) {
	store, err := notify.Open(notify.Config{URL: storetest.URL(), Prefix: "example-" + notify.NewID()})
	if err != nil {
		log.Fatal(err)
	}
	pub, errPub := notify.NewPublisher(store)
	inspector, errInspector := notify.NewInspector(store)
	if err := errors.Join(errPub, errInspector); err != nil {
		log.Fatal(err)
	}
	return store, pub, inspector
}

// publishAll publishes messages that an example works on.
func publishAll(pub *notify.Publisher, messages ...notify.Message) {
	for _, r := range pub.PublishMany(context.Background(), messages) {
		if r.Err != nil {
			log.Fatal(r.Err)
		}
	}
}

// buryFirst claims the first message of a topic, and buries it as a handler would.
func buryFirst(store *notify.Store, topic, reason string) {
	ctx := context.Background()
	claimer, err := subscribers.NewClaimer(store)
	if err != nil {
		log.Fatal(err)
	}
	ds, err := claimer.Claim(ctx, topic)
	if err != nil || len(ds) != 1 {
		log.Fatal(ds, err)
	}
	if _, err := ds[0].Bury(ctx, reason); err != nil {
		log.Fatal(err)
	}
}

// listenOnce listens under a name until that is registered.
func listenOnce(store *notify.Store, name, pattern string) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	l, err := subscribers.NewListener(store)
	if err != nil {
		log.Fatal(err)
	}
	err = l.Listen(ctx, pattern, func(context.Context, *subscribers.Broadcast) error { return nil },
		subscribers.ListenOptions{Name: name, OnStart: func(subscribers.Bookmark) { stop() }})
	if err != nil {
		log.Fatal(err)
	}
}

func ExampleSQL() {
	query, args, err := notify.SQL(notify.Message{Topic: "order.timeout", ID: "order-4711", Delay: 30 * time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	// In the transaction that writes the order: tx.ExecContext(ctx, query, args...)
	fmt.Println(query)
	fmt.Println(len(args))
	// Output:
	// SELECT bellhop.publish($1, $2::bytea, "id" => $3::text, "delay" => $4::interval)
	// 4
}
