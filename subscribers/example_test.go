package subscribers_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/subscribers"
)

// A worker that cancels orders which were not paid in time, until it is told to stop.
func Example() {
	store, err := notify.Open(notify.Config{URL: "redis://127.0.0.1:6379"})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	sub, err := subscribers.New(store, subscribers.Options{})
	if err != nil {
		log.Fatal(err)
	}
	err = sub.Handle("order.timeout", func(ctx context.Context, d *subscribers.Delivery) error {
		fmt.Printf("order %s was not paid: %s\n", d.ID, d.Body)
		return nil
	}, subscribers.HandleOptions{Concurrency: 8})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := sub.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

func ExampleClaimer() {
	store, err := notify.Open(notify.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	ctx := context.Background()
	claimer := subscribers.NewClaimer(store)
	messages, err := claimer.Claim(ctx, "order.timeout", 10, 30*time.Second, 0)
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range messages {
		if err := claimer.Ack(ctx, m); errors.Is(err, notify.ErrLeaseLost) {
			fmt.Println("somebody else has it now:", m.ID)
		}
	}
}

// Any number of callers, such as those of an HTTP server, wait for messages over one connection.
func ExamplePoller() {
	store, err := notify.Open(notify.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	poller := subscribers.NewPoller(store, subscribers.PollerOptions{})
	go poller.Run(ctx)
	for ctx.Err() == nil {
		messages, err := poller.Claim(ctx, "order.timeout", subscribers.ClaimOptions{Max: 10, Lease: 30 * time.Second, Wait: time.Minute})
		if err != nil {
			log.Fatal(err)
		}
		for _, m := range messages {
			fmt.Printf("order %s was not paid: %s\n", m.ID, m.Body)
			if err := poller.Ack(ctx, m); err != nil {
				log.Print(err)
			}
		}
	}
}

func ExampleRetryAfter() {
	handler := func(ctx context.Context, d *subscribers.Delivery) error {
		if len(d.Body) == 0 {
			return fmt.Errorf("%w: it has no body", subscribers.ErrBury)
		}
		return subscribers.RetryAfter(errors.New("the bank is closed"), 8*time.Hour)
	}
	err := handler(context.Background(), &subscribers.Delivery{})
	fmt.Println(err)
	// Output: buried by the handler: it has no body
}

// A listener that keeps its place in Redis: processes of the name shop share
// the broadcasts, and one that comes back gets what was sent meanwhile.
func ExampleListener_Listen() {
	store, err := notify.Open(notify.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	listener := subscribers.NewListener(store, subscribers.ListenerOptions{})
	err = listener.Listen(ctx, "prices.*", func(ctx context.Context, b *subscribers.Broadcast) error {
		fmt.Printf("%s is now %s\n", b.Topic, b.Body)
		return nil
	}, subscribers.ListenOptions{
		Name:  "shop",
		OnGap: func(g subscribers.Gap) { fmt.Println("missed prices of", g.Topic) },
	})
	if err != nil {
		log.Fatal(err)
	}
}
