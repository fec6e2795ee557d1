package store_test

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify/storetest"
)

// More logs, and more places of a name, than one command reads are all found.
func TestManyLogs(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	const n = 2500
	logs, places := make([]redis.Z, n), make(map[string]any)
	for i := range n {
		topic := fmt.Sprint("t.", i)
		logs[i], places[topic] = redis.Z{Member: topic, Score: 1.7e15 + float64(i)}, fmt.Sprint(1_700_000_000_000_000+i)
	}
	home := db.Home()
	storetest.Must(t, db.Client().ZAdd(t.Context(), home.Keys().Logs(), logs...).Err())
	storetest.Must(t, db.Client().HSet(t.Context(), home.Keys().Places("n"), places).Err())
	ends, err := home.LogEnds(t.Context())
	if err != nil || len(ends) != n {
		t.Fatalf("%d ends, %v", len(ends), err)
	}
	at, err := home.Progress(t.Context(), "n")
	if err != nil || len(at.Places) != n {
		t.Fatalf("%d places, %v", len(at.Places), err)
	}
	for _, end := range ends {
		if end.Last < 1.7e15 || at.Places[end.Topic] != end.Last {
			t.Errorf("%s ends at %v, with its place at %v", end.Topic, end.Last, at.Places[end.Topic])
		}
	}
}
