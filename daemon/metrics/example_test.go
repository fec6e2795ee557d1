package metrics_test

import (
	"log"
	"net/http"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon/metrics"
	"github.com/bellhopd/bellhop/notify"
)

func Example() {
	store, err := notify.Open(notify.Config{URL: "redis://127.0.0.1:6379"})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	m, err := metrics.New(store, metrics.Options{Version: "v1.0.0"})
	if err != nil {
		log.Fatal(err)
	}
	store.Observe(m.Observe)
	c, err := carrier.New(store, carrier.Options{OnCarried: m.Carried})
	if err != nil {
		log.Fatal(err)
	}
	m.ShowCarrier(c.States)
	http.Handle("GET /metrics", m.Handler())
}
