package reach_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// What a format adds is refused until the store has it, also where nothing but the root of the store is there, and then at once, whoever raised it.
func TestNeeds(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 8} {
		prefix := "test-" + record.NewID()
		before := withShards(t, storetest.URL(), prefix, shards)
		storetest.Must(t, publishTo(t, before, "a"))
		needs := reach.Newest().Number + 1
		later, beside := next(t, prefix, shards), next(t, prefix, shards)
		for _, topic := range []string{"a", "b", "c", "d"} {
			err := later.Of(topic).Needs(t.Context(), needs, "what is new")
			if !errors.Is(err, reach.ErrFormat) || !strings.Contains(err.Error(), "what is new needs format "+newer+", and this one has "+older+", so that older programs can work beside; when none is left: bellhop upgrade") {
				t.Errorf("%d shards, %s: %v", shards, topic, err)
			}
			storetest.Is(t, "what was there", later.Of(topic).Needs(t.Context(), needs-1, "what is old"), nil)
		}
		storetest.Must(t, beside.Raise(t.Context()))
		for _, topic := range []string{"a", "b", "c", "d"} {
			storetest.Is(t, "what is new", later.Of(topic).Needs(t.Context(), needs, "what is new"), nil)
		}
	}
	fresh := next(t, "test-"+record.NewID(), 8)
	storetest.Is(t, "what is new in a new store", fresh.Of("a").Needs(t.Context(), reach.Newest().Number+1, "what is new"), nil)
}
