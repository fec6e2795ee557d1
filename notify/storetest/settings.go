package storetest

import (
	"testing"

	"github.com/bellhopd/bellhop/notify"
)

// Set changes settings of a topic, or of notify.AllTopics.
func Set(t *testing.T, store *notify.Store, topic string, c notify.SettingsChange) {
	t.Helper()
	if _, err := notify.NewPublisher(store, notify.PublisherOptions{}).Set(t.Context(), topic, c); err != nil {
		t.Fatal(err)
	}
}
