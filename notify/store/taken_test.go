package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// Each step of the housekeeping frees 500 of the ids whose time is over, and asks for the
// next one soon while there may be more. Those whose time is not over stay taken.
func TestSweepOfTakenIDs(t *testing.T) {
	t.Parallel()
	const over, page = 100_000, 500
	db := storetest.Open(t)
	client, keys := db.Client(), db.KeysOf("t")
	take := func(from, n int, until int64) {
		members, records := make([]redis.Z, n), make([]any, 0, 2*n)
		for i := range members {
			member := fmt.Sprintf("t:%06d", from+i)
			members[i] = redis.Z{Score: float64(until), Member: member}
			records = append(records, member, fmt.Sprintf("=%d", until))
		}
		storetest.Must(t, client.ZAdd(t.Context(), keys.Taken(), members...).Err())
		storetest.Must(t, client.HSet(t.Context(), keys.Messages(), records...).Err())
	}
	for from := 0; from < over; from += page {
		take(from, page, 1)
	}
	take(over, 10, time.Now().Add(time.Hour).UnixMilli())
	elected, err := db.Of("t").Elect(t.Context(), "me", time.Hour, 0)
	if err != nil || !elected.Won {
		t.Fatal(elected, err)
	}
	for left := over; ; left -= page {
		swept, err := db.Of("t").Sweep(t.Context(), store.Sweep{Token: elected.Token, KeepDeadCount: 1, KeepDeadAge: time.Hour, KeepTopics: time.Hour, KeepAge: time.Hour})
		storetest.Must(t, err)
		want := int64(max(left-page, 0) + 10)
		if taken, records := client.ZCard(t.Context(), keys.Taken()).Val(), client.HLen(t.Context(), keys.Messages()).Val(); taken != want || records != want || swept.Soon != (left > 0) {
			t.Fatalf("%d are taken, with %d records, soon: %v; want %d, %v", taken, records, swept.Soon, want, left > 0)
		}
		if !swept.Soon {
			return
		}
	}
}
