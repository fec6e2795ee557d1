package carrier_test

import (
	"errors"
	"testing"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A carrier needs a store, and takes options once or not at all.
func TestNewRefusesWhatIsWrong(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	if c, err := carrier.New(db); err != nil || c.Alive() != nil {
		t.Errorf("got %v, and a carrier that does not run is not alive", err)
	}
	_, none := carrier.New(nil)
	_, twice := carrier.New(db, make([]carrier.Options, 2)...)
	for field, err := range map[string]error{"store": none, "options": twice} {
		var fault *notify.Fault
		if !errors.As(err, &fault) || fault.Field != field {
			t.Errorf("got %v, want a fault of %s", err, field)
		}
	}
}
