package fault_test

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-multierror"

	"github.com/bellhopd/bellhop/notify/store/fault"
)

func TestFault(t *testing.T) {
	unread := &fault.Fault{Field: "ca_file", Err: fmt.Errorf("read redis CA file: %w", fs.ErrNotExist)}
	for _, test := range []struct {
		err         error
		field, text string
	}{
		{fault.New("delay", "delay %v: it is negative", -time.Second), "delay", "invalid delay -1s: it is negative"},
		{fmt.Errorf("handle orders: %w", fault.New("lease", "lease 0s")), "lease", "handle orders: invalid lease 0s"},
		{fault.Within("max", "max", 501, 1, 500), "max", "invalid max 501: use 1 to 500"},
		{fault.Within("lease", "carrier lease", 25*time.Hour, 100*time.Millisecond, 24*time.Hour), "lease", "invalid carrier lease 25h: use 100ms to 24h"},
		{unread, "ca_file", "read redis CA file: file does not exist"},
		{fault.Renamed("BELLHOP_REDIS_CA_FILE", unread), "BELLHOP_REDIS_CA_FILE", "read redis CA file: file does not exist"},
	} {
		var got *fault.Fault
		if !errors.As(test.err, &got) || got.Field != test.field || test.err.Error() != test.text || !errors.Is(test.err, fault.ErrInvalid) {
			t.Errorf("%v is a fault of %+v; want %q of %s", test.err, got, test.text, test.field)
		}
	}
	if !errors.Is(unread, fs.ErrNotExist) {
		t.Errorf("%v has lost its cause", unread)
	}
	if err := errors.Join(fault.Within("max", "max", 1, 1, 1), fault.Renamed("x", nil)); err != nil {
		t.Errorf("what is right is a fault: %v", err)
	}
}

func TestFaults(t *testing.T) {
	of := func(field string) error { return fault.New(field, "%s: it is wrong", field) }
	several := errors.Join(
		errors.New("no fault"), of("a"), fmt.Errorf("x: %w", errors.Join(of("b"), of("c"))),
		multierror.Append(nil, of("d"), fmt.Errorf("y: %w", of("e"))),
	)
	var got []string
	for _, f := range fault.All(several) {
		got = append(got, f.Field)
	}
	if diff := cmp.Diff([]string{"a", "b", "c", "d", "e"}, got); diff != "" {
		t.Error(diff)
	}
	if all := fault.All(nil); all != nil {
		t.Errorf("no error has faults: %v", all)
	}
}
