package storetest

import (
	"testing"

	"github.com/bellhopd/bellhop/notify"
)

// Set changes settings of a topic, or of notify.AllTopics.
func Set(t testing.TB, store *notify.Store, topic string, c notify.SettingsChange) {
	t.Helper()
	if _, err := Inspector(t, store).Set(t.Context(), topic, c); err != nil {
		t.Fatal(err)
	}
}
