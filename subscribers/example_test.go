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

// A worker that cancels orders which were not paid in time, until SIGTERM.
func Example() {
	store, err := notify.Open(notify.Config{URL: "redis://127.0.0.1:6379"})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	sub, err := subscribers.NewSubscriber(store)
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

// Bodies are decoded from JSON. A message whose body is no order is buried with the reason.
func ExampleHandleJSON() {
	store, err := notify.Open(notify.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	sub, err := subscribers.NewSubscriber(store)
	if err != nil {
		log.Fatal(err)
	}
	type order struct {
		Number int
		Items  []string
	}
	err = subscribers.HandleJSON(sub, "order.timeout", func(ctx context.Context, d *subscribers.Delivery, o order) error {
		fmt.Printf("order %d of %d items was not paid\n", o.Number, len(o.Items))
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := sub.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

// Middleware measures every handler of a subscriber.
func ExampleSubscriber_Use() {
	store, err := notify.Open(notify.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	sub, err := subscribers.NewSubscriber(store)
	if err != nil {
		log.Fatal(err)
	}
	err = sub.Use(func(next subscribers.Handler) subscribers.Handler {
		return func(ctx context.Context, d *subscribers.Delivery) error {
			began := time.Now()
			err := next(ctx, d)
			log.Printf("%s %s took %v: %v", d.Topic, d.ID, time.Since(began), err)
			return err
		}
	})
	if err != nil {
		log.Fatal(err)
	}
	// sub.Handle and sub.Run follow.
}

// A handler may settle its message before it returns: here, before work whose
// failure shall not bring the message back.
func ExampleDelivery_Ack() {
	handler := func(ctx context.Context, d *subscribers.Delivery) error {
		if err := d.Ack(ctx); err != nil {
			return err
		}
		fmt.Println("at most once from here:", d.ID)
		return nil
	}
	_ = handler // of Subscriber.Handle
}

// Messages are pulled. While Run runs any number of callers, such as those of an
// HTTP server, wait over one connection.
func ExampleClaimer() {
	store, err := notify.Open(notify.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	claimer, err := subscribers.NewClaimer(store)
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ran := make(chan error)
	go func() { ran <- claimer.Run(ctx) }()
	for ctx.Err() == nil {
		messages, err := claimer.Claim(ctx, "order.timeout", subscribers.ClaimOptions{Max: 10, Wait: time.Minute})
		if err != nil {
			log.Print(err)
			select { // a call that fails at once is not repeated at once
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
			continue
		}
		for _, m := range messages {
			fmt.Printf("order %s was not paid: %s\n", m.ID, m.Body)   // call m.Extend where this takes longer than the lease of all ten
			if err := m.Ack(context.WithoutCancel(ctx)); err != nil { // also after a signal; with notify.ErrLeaseLost another process may have it
				log.Print(err)
			}
		}
	}
	if err := <-ran; err != nil {
		log.Print(err)
	}
}

// A pool of workers for several topics: the first has precedence.
func ExampleClaimer_ClaimAny() {
	store, err := notify.Open(notify.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	claimer, err := subscribers.NewClaimer(store)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	go claimer.Run(ctx)
	messages, err := claimer.ClaimAny(ctx, []string{"mail.urgent", "mail.bulk"}, subscribers.ClaimOptions{Max: 10, Wait: time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range messages {
		fmt.Println("send", m.Topic, m.ID)
		if err := m.Ack(ctx); err != nil {
			log.Print(err)
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

// A listener without a name receives what is sent while it listens.
func ExampleListener() {
	store, err := notify.Open(notify.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	listener, err := subscribers.NewListener(store)
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err = listener.Listen(ctx, "prices.*", func(ctx context.Context, b *subscribers.Broadcast) error {
		fmt.Printf("%s is now %s\n", b.Topic, b.Body)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}

// A listener that keeps its place in Redis: processes of the name shop share
// the broadcasts, and one that comes back gets what was sent meanwhile.
func ExampleListener_Listen_named() {
	store, err := notify.Open(notify.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	listener, err := subscribers.NewListener(store)
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err = listener.Listen(ctx, "prices.*", func(ctx context.Context, b *subscribers.Broadcast) error {
		fmt.Printf("%s is now %s\n", b.Topic, b.Body)
		return nil
	}, subscribers.ListenOptions{
		Name:      "shop",
		OnGap:     func(g subscribers.Gap) { fmt.Println("missed prices of", g.Topic) },
		OnGivenUp: func(b *subscribers.Broadcast, reason string) { fmt.Println("failed ten times:", b.Topic, b.ID, reason) },
	})
	if err != nil {
		log.Fatal(err)
	}
}
