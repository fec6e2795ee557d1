package faults_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/faults/history"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify"
)

// skew sets the clock of Redis's machine apart from that of all other hosts, and records that.
func (w *world) skew() error {
	if w.ahead == 0 {
		return nil
	}
	op := w.log.Call(history.Record{Op: history.Fault, Kind: "skew redis", Target: "redis", Offset: w.ahead.Milliseconds()})
	err := w.machine.SetClock(w.ahead)
	op.End(history.OK, history.Record{})
	op.Heal().End(history.OK, history.Record{Offset: w.ahead.Milliseconds()})
	return err
}

// selectedTopic is the topic of messages that are found, and cancelled before any is due.
const selectedTopic = "selected"

// selects checks that what is selected by a time from now counts by Redis's clock, however far that is from this host's.
// It is to be called before a fault may have Redis forget a cancellation.
func (w *world) selects(ctx context.Context) error {
	if w.ahead == 0 {
		return nil
	}
	pub, err := notify.NewPublisher(w.store)
	if err != nil {
		return err
	}
	for id, delay := range map[string]time.Duration{"soon": 20 * time.Minute, "later": 45 * time.Minute} {
		if _, err := pub.Publish(ctx, notify.Message{Topic: selectedTopic, ID: id, Delay: delay}); err != nil {
			return err
		}
	}
	for _, one := range []struct{ question, ids string }{
		{"due<+30m topic:" + selectedTopic, "soon"}, {"due<+1h topic:" + selectedTopic, "later"}, // the first is cancelled by then
	} {
		found, err := w.find(ctx, one.question)
		if err != nil {
			return err
		}
		if got := strings.Join(found, " "); got != one.ids {
			return fmt.Errorf("bellhop find %s finds %q, want %q: redis's clock is %v ahead", one.question, got, one.ids, w.ahead)
		}
		for _, id := range found {
			if _, err := pub.Cancel(ctx, selectedTopic, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// find returns the ids that bellhop find prints.
func (w *world) find(ctx context.Context, question string) (ids []string, err error) {
	find := exec.CommandContext(ctx, bellhop, "find", question, "--json")
	find.Env = append(os.Environ(), "BELLHOP_REDIS_URL="+w.config().URL)
	var said strings.Builder
	find.Stderr = &said
	out, err := find.Output()
	if err != nil {
		return nil, fmt.Errorf("bellhop find %s: %w: %s%s", question, err, said.String(), out)
	}
	var found calls.Found
	if err := json.Unmarshal(out, &found); err != nil {
		return nil, fmt.Errorf("bellhop find %s prints %s: %w", question, out, err)
	}
	for _, one := range found.Messages {
		ids = append(ids, one.ID)
	}
	slices.Sort(ids)
	return ids, nil
}
