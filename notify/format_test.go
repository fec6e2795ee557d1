package notify_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// unused returns a store that was never used.
func unused(t testing.TB) *notify.Store {
	t.Helper()
	return storetest.At(t, storetest.URL(), "test-"+notify.NewID())
}

func formatOf(t testing.TB, store *notify.Store) string {
	t.Helper()
	text, err := store.Client().Get(t.Context(), store.KeysOf(topic).Format()).Result()
	storetest.Must(t, err)
	return text
}

// The first call founds a store, and all later calls find the same one.
func TestStoreIsFounded(t *testing.T) {
	t.Parallel()
	store := unused(t)
	storetest.Must(t, store.Check(t.Context()))
	if left := len(keysOf(t, store)); left != 0 {
		t.Fatalf("a look left %d keys", left)
	}
	publish(t, clientOf(t, store), message("a", future))
	format := formatOf(t, store)
	mark := fmt.Sprintf("%d ", reach.Newest().Number)
	if storetest.Shards() > 1 {
		mark = fmt.Sprintf("%d/%d/0 ", reach.Newest().Number, storetest.Shards())
	}
	if !strings.HasPrefix(format, mark) || len(format) != len(mark+"PCkTC4e0vIsHuTz2") {
		t.Errorf("the format is %q", format)
	}
	other := storetest.At(t, storetest.URL(), store.KeysOf(topic).Prefix())
	publish(t, clientOf(t, other), message("b", future))
	storetest.Is(t, "the format became", formatOf(t, store), format)
}

// A process that runs on after Redis lost everything founds another store.
func TestStoreIsFoundedAgain(t *testing.T) {
	t.Parallel()
	store := unused(t)
	pub := clientOf(t, store)
	publish(t, pub, message("a", future))
	before := formatOf(t, store)
	for _, key := range keysOf(t, store) {
		storetest.Must(t, store.Client().Del(t.Context(), key).Err())
	}
	publish(t, pub, message("a", future))
	if after := formatOf(t, store); after == before {
		t.Errorf("the new store has the id of the one before: %q", after)
	}
}

func TestOtherFormat(t *testing.T) {
	t.Parallel()
	storetest.OneShard(t, "only the first one has another format")
	for _, test := range []struct {
		name, key, value string
		says             string
	}{
		{"newer", "format", "11 PCkTC4e0vIsHuTz2", "has format 11, and this version of Bellhop works with formats 9 to 10; bellhop upgrade was run on it"},
		{"older", "format", "8 PCkTC4e0vIsHuTz2", "has format 8, and this version of Bellhop works with formats 9 to 10"},
		{"foreign", "format", "x", "has format x,"},
		{"alike", "format", "90 ID", "has format 90,"},
		{"from before", "epoch", "7", "from before formats had numbers"},
	} {
		t.Run(test.name, func(t *testing.T) {
			store := unused(t)
			storetest.Must(t, store.Client().Set(t.Context(), store.KeysOf(topic).Base()+test.key, test.value, 0).Err())
			refused := func(when string, err error) {
				t.Helper()
				if !errors.Is(err, notify.ErrUnfit) || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), "another prefix") {
					t.Errorf("%s: %v", when, err)
				}
			}
			before := dump(t, store)
			_, err := clientOf(t, store).Publish(t.Context(), message("a", future))
			refused("publish", err)
			refused("check", store.Check(t.Context()))
			_, err = storetest.Collect(clientOf(t, store).Topics(t.Context()))
			refused("topics", err)
			_, err = storetest.Inspector(t, store).Listeners(t.Context())
			refused("listeners", err)
			_, err = carrier.Look(t.Context(), store.Home())
			refused("carrier", err)
			if after := dump(t, store); len(after) != len(before) {
				t.Errorf("it was changed from %v to %v", before, after)
			}
		})
	}
}

// A running process is refused, too, once its store has another format.
func TestFormatChangesMeanwhile(t *testing.T) {
	t.Parallel()
	pub, store := open(t)
	publish(t, pub, message("a", future))
	storetest.Must(t, store.Client().Set(t.Context(), store.KeysOf(topic).Format(), "2 ID", 0).Err())
	unchanged(t, store, func() {
		storetest.Fails(t, "publish", storetest.ErrOf(pub.Publish(t.Context(), message("b", future))), notify.ErrUnfit)
		storetest.Fails(t, "cancel", storetest.ErrOf(pub.Cancel(t.Context(), topic, "a")), notify.ErrUnfit)
	})
}

// keysOf returns the keys that a store holds.
func keysOf(t testing.TB, store *notify.Store) []string {
	t.Helper()
	keys, err := store.Client().Keys(t.Context(), store.KeysOf(topic).Base()+"*").Result()
	storetest.Must(t, err)
	return keys
}
