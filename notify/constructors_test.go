package notify_test

import (
	"testing"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A wrong argument of a constructor is a Fault that names it.
func TestConstructorsRefuse(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	_, noStore := notify.NewInspector(nil)
	wantInvalid(t, noStore, "store")
	for _, test := range []struct {
		words   string
		store   *notify.Store
		options []notify.PublisherOptions
	}{
		{"store", nil, nil},
		{"max body", db, []notify.PublisherOptions{{MaxBody: -1}}},
		{"options", db, []notify.PublisherOptions{{}, {}}},
	} {
		pub, err := notify.NewPublisher(test.store, test.options...)
		wantInvalid(t, err, test.words)
		if pub != nil {
			t.Errorf("%s: there is a publisher in spite of %v", test.words, err)
		}
	}
}
