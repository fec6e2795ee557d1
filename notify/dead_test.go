package notify_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// die publishes messages and buries them.
func die(t *testing.T, store *notify.Store, messages ...notify.Message) {
	t.Helper()
	c := subscriberstest.Claimer(t, store)
	storetest.Publish(t, store, messages...)
	for left := len(messages); left > 0; {
		ds, err := c.Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 500, Lease: time.Minute})
		storetest.Must(t, err)
		for _, d := range ds {
			storetest.Must(t, storetest.ErrOf(d.Bury(t.Context(), "because of "+d.ID)))
		}
		left -= len(ds)
	}
}

func numbered(n int) (messages []notify.Message) {
	for i := range n {
		messages = append(messages, message(fmt.Sprintf("%04d", i), time.Time{}))
	}
	return messages
}

func TestDeadLettersByID(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
	publish a b c ttl=1h
	claim 3 = a b c
	bury a reason="because of a"
	pass 1ms
	bury b
	pass 1ms
	bury c
	list dead = a b c
	has a reason="because of a"
	purge a none = 1
	requeue b c none = 2
	requeue b = 0
	has c state=ready attempts=0 expires=due+1h
	claim 2 = b c
	ack b c
	empty
	`)
}

// An id that is given twice is requeued or purged once, and counts once.
func TestDeadLettersGivenTwice(t *testing.T) {
	t.Parallel()
	pub, store := open(t)
	b := announcement("b", time.Time{})
	b.Restore = &notify.Restore{Died: redisTime(t, store)}
	die(t, store, message("a", time.Time{}), message("c", time.Time{}))
	storetest.Publish(t, store, b)
	if n, err := pub.Purge(t.Context(), topic, "c", "c"); n != 1 || err != nil {
		t.Errorf("purged %d, %v", n, err)
	}
	if n, err := pub.Requeue(t.Context(), topic, "b", "a", "b", "a"); n != 2 || err != nil {
		t.Errorf("requeued %d, %v", n, err)
	}
	if c := counts(t, pub); c.Ready != 1 || c.Broadcasts != 1 || c.Dead != 0 {
		t.Errorf("got %+v", c)
	}
}

// The lines of dead letters can be published again.
func TestLinesOfDead(t *testing.T) {
	t.Parallel()
	pub, store := open(t)
	binary := message("binary", time.Time{})
	binary.Body = []byte{0, 0xff, '\n'}
	signal := notify.Message{Topic: topic, ID: "signal", Body: []byte{}}
	full := message("full", time.Time{})
	full.Headers, full.ContentType, full.TTL, full.MaxAttempts = map[string]string{"K": "<v>"}, "text/plain", time.Hour, 7
	die(t, store, append(numbered(700), binary, signal, full)...)
	var lines [][]byte
	messages := make(map[string]notify.Message)
	for cursor, more := "", true; more; more = cursor != "" {
		page, err := pub.List(t.Context(), topic, notify.Dead, 500, cursor)
		storetest.Must(t, err)
		for _, info := range page.Messages {
			line, err := json.Marshal(info.Line())
			storetest.Must(t, err)
			m, err := notify.ParseLine(line)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			lines, messages[m.ID] = append(lines, line), m
		}
		cursor = page.Cursor
	}
	storetest.Same(t, "it", full, messages["full"])
	storetest.Same(t, "it", binary, messages["binary"])
	storetest.Same(t, "it", signal, messages["signal"])
	var line notify.Line
	if err := json.Unmarshal(lines[0], &line); err != nil || line.Reason != "because of 0000" || line.AttemptsUsed != 1 || line.Died == nil {
		t.Errorf("got %+v, %v", line, err)
	}
	if len(messages) != 703 || counts(t, pub).Dead != 703 {
		t.Errorf("%d are listed, %d are left", len(messages), counts(t, pub).Dead)
	}
}
