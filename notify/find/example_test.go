package find_test

import (
	"context"
	"fmt"
	"log"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/find"
)

// A page of what a question asks for; the cursor goes on.
func ExampleFinder_Find() {
	store, err := notify.Open(notify.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	finder, err := find.New(store)
	if err != nil {
		log.Fatal(err)
	}
	q, err := find.Parse("state:dead reason~timeout")
	if err != nil {
		log.Fatal(err)
	}
	page, err := finder.Find(context.Background(), q, find.Options{Limit: 100})
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range page.Messages {
		fmt.Println(m.Topic, m.ID, m.Reason)
	}
	fmt.Printf("looked at %d of %d, more: %t\n", page.Looked, page.Of, page.Cursor != "")
}

// A fault says where a question stops making sense, and what would be right.
func ExampleParse() {
	_, err := find.Parse("topic:order.* stat:dead")
	fmt.Println(err)
	// Output: invalid q: at character 15 stands "stat:dead": no term is called that; did you mean state? Terms are topic:order.* state:dead id:order-47* key:acct-7 group:import-7 reason~timeout header.NAME=VALUE body~4711 due<2026-12-01 due>-1h
}
