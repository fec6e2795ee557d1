package notify_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// What a message asks for is an argument each, of a type that any driver has.
func TestSQL(t *testing.T) {
	due := time.Date(2030, 1, 2, 8, 0, 0, 1, calendar.Wall)
	for want, m := range map[string]notify.Message{
		`SELECT bellhop.publish($1, $2::bytea) orders`: {Topic: "orders"},
		`SELECT bellhop.publish($1, $2::bytea, "id" => $3::text, "delay" => $4::interval, "attempts" => $5::integer, "then" => $6::text, "headers" => $7::jsonb) orders o-1 0 hours 1800.000000 seconds 5 after {"A":"\u003c"}`: {
			Topic: "orders", Body: []byte("x"), ID: "o-1", Delay: 30 * time.Minute, MaxAttempts: 5, Then: notify.After, Headers: map[string]string{"A": "<"},
		},
		`SELECT bellhop.publish($1, $2::bytea, "due" => $3::timestamptz, "broadcast" => $4::boolean) orders 2030-01-02T07:00:00.000001Z true`: {
			Topic: "orders", Due: due, Zone: "Europe/Berlin", Broadcast: true,
		},
		`SELECT bellhop.publish($1, $2::bytea, "delay" => $3::interval) orders 0 hours 0.000001 seconds`:        {Topic: "orders", Delay: 1},
		`SELECT bellhop.publish($1, $2::bytea, "ttl" => $3::interval) orders 2562047 hours 2836.854775 seconds`: {Topic: "orders", TTL: math.MaxInt64},
	} {
		query, args, err := notify.SQL(m)
		if err != nil {
			t.Errorf("%s: %v", want, err)
			continue
		}
		storetest.Same(t, "the body", append([]byte{}, m.Body...), args[1])
		got := query + " " + args[0].(string)
		for _, arg := range args[2:] {
			got += " " + fmt.Sprint(arg)
		}
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// What a publish refuses is refused, but for the size of a body, which the database knows, and what is restored.
func TestSQLRefuses(t *testing.T) {
	_, _, err := notify.SQL(notify.Message{Topic: "a b", Key: "~", IfExists: notify.Keep, Body: make([]byte, notify.DefaultMaxBody+1)})
	var fields []string
	for f := range strings.Lines(err.Error()) {
		fields = append(fields, strings.Fields(f)[1])
	}
	if diff := cmp.Diff([]string{"topic", "key", "if_exists"}, fields); diff != "" || !errors.Is(err, notify.ErrInvalid) {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	_, _, err = notify.SQL(notify.Message{Topic: "t", ID: "x", Due: time.Unix(1, 0), Restore: &notify.Restore{}})
	if err == nil || !strings.Contains(err.Error(), "an outbox has new messages alone") {
		t.Errorf("what is restored: %v", err)
	}
}
