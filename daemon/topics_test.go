package daemon_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/daemon"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// settingsOf returns the settings of a topic.
func settingsOf(t *testing.T, store *notify.Store, topic string) notify.TopicSettings {
	t.Helper()
	got, err := storetest.Inspector(t, store).Settings(t.Context(), topic)
	storetest.Must(t, err)
	return got
}

// fill fills in the settings of a store, and returns what was logged.
func fill(t *testing.T, c daemon.Config, store *notify.Store) string {
	t.Helper()
	var log storetest.Log
	c.FillSettings(t.Context(), store, log.Logger(slog.LevelInfo))
	return log.String()
}

// The configuration sets only settings that the store lacks. It warns of those that differ, and keeps them.
func TestFillSettings(t *testing.T) {
	store := storetest.Open(t)
	if log := fill(t, daemon.Config{}, store); log != "" || store.Client().Exists(t.Context(), store.Keys().Base()+"topics").Val() != 0 {
		t.Errorf("a configuration without settings sets some: %s", log)
	}
	storetest.Set(t, store, notify.AllTopics, notify.SettingsChange{Lease: new(10 * time.Second)})
	storetest.Set(t, store, "mail", notify.SettingsChange{Attempts: new(7)})
	c := daemon.Config{MaxAttempts: 3, Lease: time.Minute, BackoffMax: time.Hour}
	for range 2 { // like two daemons that start one after the other
		log := fill(t, c, store)
		if strings.Count(log, "\n") != 1 || !strings.Contains(log, "level=WARN") || !strings.Contains(log, "setting=lease store=10s configuration=1m") {
			t.Errorf("logged %s, want one warning of the lease", log)
		}
	}
	want := notify.TopicSettings{
		Settings: notify.Settings{Attempts: 3, Lease: 10 * time.Second, BackoffMin: time.Second, BackoffMax: time.Hour, History: true, KeyConcurrency: 1, OnRetry: "block", OnDead: "go"},
		Own:      []string{"attempts", "lease", "backoff_max"},
	}
	if diff := cmp.Diff(want, settingsOf(t, store, notify.AllTopics)); diff != "" {
		t.Error(diff)
	}
	want.Attempts, want.Own = 7, []string{"attempts"}
	if diff := cmp.Diff(want, settingsOf(t, store, "mail")); diff != "" {
		t.Error(diff)
	}
}

// A bound of the backoff in the store contradicts the configuration's other bound: the store's bounds stay, and the
// other settings are set.
func TestFillSettingsLeavesBackoff(t *testing.T) {
	store := storetest.Open(t)
	storetest.Set(t, store, notify.AllTopics, notify.SettingsChange{BackoffMin: new(5 * time.Minute)})
	log := fill(t, daemon.Config{MaxAttempts: 3, BackoffMin: time.Second, BackoffMax: 2 * time.Minute}, store)
	for _, want := range []string{"setting=backoff_min store=5m configuration=1s", "setting=backoff_max store=10m configuration=2m"} {
		if !strings.Contains(log, want) {
			t.Errorf("logged %s, want %s in it", log, want)
		}
	}
	want := notify.TopicSettings{
		Settings: notify.Settings{Attempts: 3, Lease: 30 * time.Second, BackoffMin: 5 * time.Minute, BackoffMax: 10 * time.Minute, History: true, KeyConcurrency: 1, OnRetry: "block", OnDead: "go"},
		Own:      []string{"attempts", "backoff_min"},
	}
	if diff := cmp.Diff(want, settingsOf(t, store, notify.AllTopics)); diff != "" {
		t.Error(diff)
	}
}

// A daemon sets them once Redis is there. A stop before is no error.
func TestFillSettingsWaitsForRedis(t *testing.T) {
	server := storetest.Server(t)
	store := storetest.At(t, server.URL(), "")
	server.Kill()
	begin := func() (log *storetest.Log, stop func()) {
		log = &storetest.Log{}
		stop = storetest.Run(t, func(ctx context.Context) error {
			daemon.Config{Lease: time.Minute}.FillSettings(ctx, store, log.Logger(slog.LevelInfo))
			return nil
		})
		log.Await(t, "retrying")
		return log, stop
	}
	log, stop := begin()
	stop()
	if n := strings.Count(log.String(), "\n"); n != 1 {
		t.Errorf("%d lines are logged, want 1:\n%s", n, log)
	}
	begin()
	storetest.Restart(t, server)
	storetest.Eventually(t, "the lease is set", func() bool { // a client that was refused often does not dial for a second
		got, err := store.SettingsOfAll(t.Context())
		return err == nil && got.Lease == time.Minute
	})
}

// After Redis lost its data, the next election sets the configuration's settings again.
func TestSettingsComeBack(t *testing.T) {
	url := storetest.Lend(t)
	c := config(t, url)
	c.Lease = time.Minute
	storetest.Run(t, func(ctx context.Context) error { return daemon.Run(ctx, c, daemon.Options{}) })
	store := storetest.At(t, url, c.Prefix)
	for range 2 {
		storetest.Eventually(t, "the lease is set", func() bool {
			got, err := store.SettingsOfAll(t.Context())
			return err == nil && got.Lease == time.Minute && len(got.Own) == 1
		})
		storetest.Must(t, store.Client().FlushAll(t.Context()).Err())
	}
}
