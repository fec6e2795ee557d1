package carrier_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// The test binary is also a carrier that can be killed.
func TestMain(m *testing.M) {
	prefix := os.Getenv(asCarrier)
	if prefix == "" {
		storetest.MainWaiting(m)
		return
	}
	storetest.Patient()
	if err := runCarrier(prefix); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Environment variables that make a test binary a carrier of a store of eight shards.
const (
	asCarrier = "TEST_AS_CARRIER" // its prefix
	atRedis   = "TEST_REDIS"      // its URL
)

func runCarrier(prefix string) error {
	db, err := notify.Open(notify.Config{URL: os.Getenv(atRedis), Prefix: prefix, Shards: 8})
	if err != nil {
		return err
	}
	c, err := carrier.New(db, carrier.Options{Name: "killed", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	return c.Run(context.Background())
}
