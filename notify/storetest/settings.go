package storetest

import (
	"testing"

	"github.com/bellhopd/bellhop/notify"
)

// RingAlone has nothing of some topics handed over: they get a limit, which nothing reaches.
func RingAlone(t testing.TB, store *notify.Store, topics ...string) {
	t.Helper()
	for _, topic := range topics {
		Set(t, store, topic, notify.SettingsChange{Concurrency: new(100_000)})
	}
}

// Set changes settings of a topic, or of notify.AllTopics.
func Set(t testing.TB, store *notify.Store, topic string, c notify.SettingsChange) {
	t.Helper()
	if _, err := Inspector(t, store).Set(t.Context(), topic, c); err != nil {
		t.Fatal(err)
	}
}
