package fields_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/notify/store/fields"
)

type source struct {
	Name  string
	Wait  time.Duration
	Short time.Duration
	Zero  time.Duration
	Left  int
	Other bool
	small int
}

// Fields of one name are copied; durations become milliseconds or text, and milliseconds durations.
func TestFill(t *testing.T) {
	type target struct {
		Name  string
		Wait  int64
		Short string
		Zero  string
		Left  int
		Only  string
		small int
	}
	from := source{Name: "a", Wait: 1500 * time.Millisecond, Short: 90 * time.Second, Left: 7, Other: true, small: 1}
	to := target{Zero: "x", Only: "kept"}
	fields.Fill(&to, &from, "Left")
	want := target{Name: "a", Wait: 1500, Short: "1m30s", Only: "kept"}
	if diff := cmp.Diff(want, to, cmp.AllowUnexported(target{})); diff != "" || to.small != 0 {
		t.Error(diff)
	}
	var back source
	fields.Fill(&back, &struct {
		Wait int64
		Left int
	}{250, 3})
	if back.Wait != 250*time.Millisecond || back.Left != 3 {
		t.Errorf("%+v", back)
	}
}

// A field that cannot be converted is a fault of the program.
func TestFillRefuses(t *testing.T) {
	defer func() {
		if said, _ := recover().(string); !strings.Contains(said, "Name") {
			t.Errorf("%q", said)
		}
	}()
	fields.Fill(&struct{ Name int }{}, &source{Name: "a"})
	t.Error("text became a number")
}
