package fields_test

import (
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify/store/fields"
)

type checked struct {
	Name  string        `field:"name" is:"id"`
	Mode  string        `field:"mode" of:"message" enum:"a,b"`
	Text  string        `field:"text" maxLength:"3"`
	N     int           `field:"n" of:"message" minimum:"1" maximum:"5"`
	Least int64         `field:"least" minimum:"2"`
	Wait  time.Duration `field:"wait" shortest:"0s"`
	Lease time.Duration `field:"lease" of:"message" shortest:"100ms" longest:"24h"`
	Long  time.Duration `field:"long" shortest:"1ms"`
	At    time.Time     `field:"at" without:"wait"`
	Body  []byte
}

// Values outside the limits of the tags are refused, and those at them are not.
func TestCheck(t *testing.T) {
	for want, of := range map[string]checked{
		"": {
			Name: "a", Mode: "b", Text: "abc", N: 5, Least: 2, Wait: 1, Lease: 100 * time.Millisecond, Long: 1<<63 - 1, Body: []byte("x"),
		},
		`invalid id "a b": use letters, digits and . _ ~ : -, but not . or .. alone, which no URL can name`: {Name: "a b"},
		`invalid mode "c": use a, b`:                                 {Mode: "c"},
		`invalid text: 4 bytes; at most 3 are allowed`:               {Text: "abcd"},
		`invalid n -1: use 1 to 5`:                                   {N: -1},
		`invalid n 6: use 1 to 5`:                                    {N: 6},
		`invalid least 1: use 2 or more`:                             {Least: 1},
		`invalid wait -1ns: it is negative; use zero or more`:        {Wait: -1},
		`invalid lease 99ms: use 100ms to 24h`:                       {Lease: 99 * time.Millisecond},
		`invalid lease 25h: use 100ms to 24h`:                        {Lease: 25 * time.Hour},
		`invalid long -1h: use 1ms or more`:                          {Long: -time.Hour},
		`invalid at 1969-12-31T23:59:59Z: it is before 1970`:         {At: time.UnixMilli(-1).UTC()},
		`invalid at 10000-01-01T00:00:00Z: it is past the year 9999`: {At: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)},
		`invalid wait and at: both are given; give one of them`:      {Wait: 1, At: time.UnixMilli(1)},
		"invalid mode \"c\": use a, b\ninvalid n 6: use 1 to 5":      {Mode: "c", N: 6},
	} {
		got := ""
		if err := fields.Check(&of, false); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%+v:\n%s\nwant\n%s", of, got, want)
		}
	}
}

// A broadcast has no field that is of a message, whatever its value.
func TestCheckOfABroadcast(t *testing.T) {
	err := fields.Check(&checked{Name: "a", Mode: "c", N: 3, Lease: time.Second, Wait: 1}, true)
	want := "invalid mode \"c\": a broadcast has none; leave it out\ninvalid n 3: a broadcast has none; leave it out\ninvalid lease 1s: a broadcast has none; leave it out"
	if err == nil || err.Error() != want {
		t.Errorf("%v; want %s", err, want)
	}
}

// A pattern is said in words where a value does not match.
func TestCheckOfWords(t *testing.T) {
	type named struct {
		Tag string `field:"tag" maxLength:"3" pattern:"^[a-z]+$" words:"letters a to z"`
	}
	for text, want := range map[string]string{
		"": "", "abc": "", "abcd": `invalid tag "abcd": use letters a to z, at most 3 bytes`, "a\n": `invalid tag "a\n": use letters a to z, at most 3 bytes`,
	} {
		got := ""
		if err := fields.Check(&named{text}, false); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
