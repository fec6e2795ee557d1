package daemon_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellhopd/bellhop/daemon"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A Redis that is full is logged once, however many calls it refuses and whatever else runs, and once that it is no longer.
func TestFullRedisIsLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := new(storetest.Log)
		observe := daemon.ObserveFull(log.Logger(slog.LevelInfo))
		full := fmt.Errorf("%w: FULL", notify.ErrFull)
		want := func(begun, over int) {
			t.Helper()
			text := log.String()
			if strings.Count(text, "redis is full, so publishes are refused") != begun || strings.Count(text, "redis is no longer full") != over || strings.Count(text, "\n") != begun+over {
				t.Errorf("want %d lines that it is full and %d that it is over:\n%s", begun, over, text)
			}
		}
		observe("publish", nil)
		observe("publish", errors.New("away"))
		want(0, 0)
		for range 100 {
			observe("publish", full)
			observe("ack", nil)
			observe("publish", nil) // a smaller one
			time.Sleep(time.Second)
		}
		want(1, 0)
		observe("fill", full)
		time.Sleep(11 * time.Second)
		observe("ack", nil)
		want(1, 0)
		observe("publish", nil)
		observe("fill", nil)
		want(1, 1)
		observe("publish", full)
		want(2, 1)
	})
}
