package subscribers_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/subscribers"
)

func TestParseFrom(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]subscribers.From{
		"now":                        subscribers.FromNow(),
		"beginning":                  subscribers.FromBeginning(),
		"0-0":                        subscribers.After("0-0"),
		"1732128000123-456":          subscribers.After("1732128000123-456"),
		"1970-01-01T00:00:00Z":       subscribers.FromTime(time.UnixMicro(0)),
		"2024-11-20T18:40:00Z":       subscribers.FromTime(time.Date(2024, 11, 20, 18, 40, 0, 0, time.UTC)),
		"2024-11-20T19:40:00+01:00":  subscribers.FromTime(time.Date(2024, 11, 20, 18, 40, 0, 0, time.UTC)),
		"2024-11-20T18:40:00.00001Z": subscribers.FromTime(time.Date(2024, 11, 20, 18, 40, 0, 10_000, time.UTC)),
	} {
		got, err := subscribers.ParseFrom(text)
		if err != nil || got != want {
			t.Errorf("%s is %+v, %v; want %+v", text, got, err, want)
		}
		if again, err := subscribers.ParseFrom(got.String()); err != nil || again != got {
			t.Errorf("%s is written as %s and read as %+v, %v", text, got, again, err)
		}
	}
	if got := (subscribers.From{}).String(); got != "" {
		t.Errorf("the zero From is %q", got)
	}
}

var badFroms = []string{
	"", " now", "Now", "begin", "5", "1-1000", "-1-0", "1--1", "1-", "-1", "1-1-1", "+1-1", "253402300800000-0", "1e3-0", "0x1-1",
	"2024-11-20", "2024-11-20T18:40:00", "1969-12-31T23:59:59Z", "10000-01-01T00:00:00Z", "yesterday", "99999999999999999999-0", "1-99999999999999999999",
	"\xff", "1 - 1", strings.Repeat("1", 1000),
}

func TestBadFrom(t *testing.T) {
	t.Parallel()
	for _, text := range badFroms {
		got, err := subscribers.ParseFrom(text)
		if !errors.Is(err, notify.ErrInvalid) || !strings.Contains(err.Error(), "from") || len(err.Error()) > 600 {
			t.Errorf("%q is %+v, %v; want an ErrInvalid about from", text, got, err)
		}
	}
}

func FuzzParseFrom(f *testing.F) {
	for _, text := range badFroms {
		f.Add(text)
	}
	for _, text := range []string{"now", "beginning", "1-1", "2024-11-20T18:40:00.5+01:00"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		from, err := subscribers.ParseFrom(text)
		if err != nil {
			if !errors.Is(err, notify.ErrInvalid) || from != (subscribers.From{}) {
				t.Fatalf("%+v, %v", from, err)
			}
			return
		}
		again, err := subscribers.ParseFrom(from.String())
		if err != nil || again != from {
			t.Fatalf("%q is written as %q and read as %+v, %v", text, from, again, err)
		}
	})
}
