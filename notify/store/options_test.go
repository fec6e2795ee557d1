package store_test

import (
	"errors"
	"testing"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
)

func TestOptionsMayBeLeftOut(t *testing.T) {
	for _, test := range []struct {
		given []int
		want  int
	}{{nil, 0}, {[]int{7}, 7}} {
		if got, err := store.Option(test.given); got != test.want || err != nil {
			t.Errorf("of %v got %d, %v", test.given, got, err)
		}
	}
	_, twice := store.Option([]int{7, 8})
	for want, err := range map[string]error{"options": twice, "store": store.CheckStore(nil)} {
		var fault *fault.Fault
		if !errors.As(err, &fault) || fault.Field != want {
			t.Errorf("got %v, want a fault of %s", err, want)
		}
	}
}
