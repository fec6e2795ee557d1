package find_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/find"
	"github.com/bellhopd/bellhop/notify/storetest"
)

func parse(t testing.TB, text string) find.Query {
	t.Helper()
	q, err := find.Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return q
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"topic:order.*":                          "topic:order.*",
		" state:dead,ready,dead\ttopic:b,a,b ":   "topic:a,b state:ready,dead",
		"id:order-47**":                          "id:order-47*",
		`reason~"time out"`:                      `reason~"time out"`,
		`reason~"timeout"`:                       `reason~timeout`,
		`body~"say \"a\\b\""`:                    `body~"say \"a\\b\""`,
		`body~a\b`:                               `body~a\b`,
		"header.b=2 header.a=1 header.b=2":       "header.a=1 header.b=2",
		"header.a~b=x=y":                         "header.a~b=x=y",
		"due<2026-12-01":                         "due<2026-12-01",
		"due<2026-12-01T00:00:00Z due>-1h":       "due>-1h due<2026-12-01",
		"due>2026-12-01T02:00:00+01:00 due<+2d":  "due>2026-12-01T01:00:00Z due<+2d",
		"due<now":                                "due<now",
		"body~\xff\x00":                          "body~\xff\x00",
		"topic:$dead.> state:scheduled":          "topic:$dead.> state:scheduled",
		"body~4711 topic:> reason~x header.k=v":  "topic:> reason~x header.k=v body~4711",
		"due>2026-12-01T01:00:00.5Z":             "due>2026-12-01T01:00:00.5Z",
		"body~\"line\nline\"":                    "body~\"line\nline\"",
		"id:" + strings.Repeat("a", 128) + "*":   "id:" + strings.Repeat("a", 128) + "*",
		"body~\u00a0" + strings.Repeat("x", 126): "body~\u00a0" + strings.Repeat("x", 126),
	} {
		q := parse(t, text)
		if q.String() != want {
			t.Errorf("%q is %q, want %q", text, q, want)
		}
		if again := parse(t, q.String()); again.String() != want {
			t.Errorf("%q again is %q", want, again)
		}
		if q.AsksBodies() != strings.Contains(want, "body~") {
			t.Errorf("%q asks for bodies: %v", text, q.AsksBodies())
		}
	}
}

// A fault says where, what stands there, and what would be right.
func TestParseFaults(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "it is empty; ask with terms such as topic:order.*",
		"   ":                                "it is empty",
		"topc:a":                             `at character 1 stands "topc:a": no term is called that; did you mean topic?`,
		"state:dead stat:x":                  `at character 12 stands "stat:x": no term is called that; did you mean state?`,
		"é:x topic":                          `at character 1 stands "é:x"`,
		"body~é xyz:1":                       `at character 8 stands "xyz:1": no term is called that; terms are`,
		"topic":                              "at character 6 stands the end: behind topic stands :",
		"topic=a":                            `at character 6 stands "=a": behind topic stands :`,
		"due:x":                              `at character 4 stands ":x": behind due stands < or >`,
		"topic: a":                           `at character 7 stands " a": the value of topic: is missing`,
		"topic:":                             "at character 7 stands the end: the value of topic: is missing",
		`body~""`:                            "the value of body~ is missing",
		"order-47":                           `stands "order-47": it is no term; write id:WORD*`,
		"a b":                                "it is no term",
		"topic:a..b":                         `"a..b" is no topic; use tokens`,
		"topic:a,,b":                         `"" is no topic`,
		"topic:a topic:b":                    `at character 9 stands "topic:b": topic: is there before; give it once`,
		"state:deaf":                         `at character 7 stands "deaf": "deaf" is no state; use scheduled, ready, blocked, leased, dead or done`,
		"id:a/b":                             "an id has letters, digits",
		"id:" + strings.Repeat("*a", 17):     "there are 17 stars; use up to 16",
		"id:" + strings.Repeat("a", 129):     "an id has at most 128 bytes",
		"body~" + strings.Repeat("a", 129):   "it has 129 bytes; look for a part of up to 128",
		"reason~" + strings.Repeat("a", 129): "it has 129 bytes; look for a part of up to 128",
		strings.Repeat("x", 4097):            "4097 bytes; ask with up to 4096",
		`body~"a`:                            "stands the end: the quote at character 6 is not closed",
		`body~"a"b`:                          `at character 9 stands "b": put a space between terms`,
		`body~a"b`:                           `at character 7`,
		`body~"a\n"`:                         `at character 8 stands "\\n\"": in quotes write \\ for a backslash`,
		"due<tomorrow":                       "write a day of UTC such as 2026-12-01",
		"due<1h":                             "how long from now, such as -1h, +30m or +2d",
		"due<2026-13-01":                     "write a day",
		"due<0001-01-01":                     "write a day",
		"due<1969-01-01":                     "before 1970",
		"due>-999999999d":                    "write a day",
		"due<a due<b":                        "write a day",
		"due<now due<now":                    "due< is there before",
		"header=x":                           "write header.NAME=VALUE",
		"header.=x":                          "write header.NAME=VALUE",
		"header.a:x":                         "write header.NAME=VALUE",
		"header.a=\x01":                      "no header has such a value",
		"topic:" + strings.Repeat("a,", 32) + "a": "there are 33 topics; give up to 32",
		strings.Repeat("header.a=b ", 21):         "one header too many",
	} {
		_, err := find.Parse(text)
		var fault *notify.Fault
		if !errors.As(err, &fault) || fault.Field != "q" || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want a fault with %q", text, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{`topic:a.*,b state:dead id:x* reason~"a \"b\\" header.k=v body~1 due<now due>-1h`, `body~"`, "due<+1d2h", "\xff:"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		q, err := find.Parse(text)
		if err != nil {
			var fault *notify.Fault
			if !errors.As(err, &fault) || fault.Field != "q" || len(err.Error()) > 1500 {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		again, err := find.Parse(q.String())
		if err != nil || again.String() != q.String() {
			t.Errorf("%q is %q, and that is %q, %v", text, q, again, err)
		}
		q.Match(notify.Info{Topic: "a", ID: "x", State: notify.Dead, Record: notify.Record{Body: []byte(text)}})
	})
}

// The states of a question can be changed, and all else stays.
func TestIn(t *testing.T) {
	t.Parallel()
	q := parse(t, `state:ready,dead topic:a reason~"b c"`)
	if got := q.States(); !slices.Equal(got, []notify.State{notify.Ready, notify.Dead}) {
		t.Errorf("asks for %v", got)
	}
	for want, states := range map[string][]notify.State{
		`topic:a reason~"b c"`:                      nil,
		`topic:a state:leased reason~"b c"`:         {notify.Leased},
		`topic:a state:scheduled,done reason~"b c"`: {notify.Done, notify.Scheduled},
	} {
		storetest.Is(t, "it", q.In(states...).String(), want)
	}
	storetest.Is(t, "it", (find.Query{}).In(notify.Dead).String(), "state:dead")
	storetest.Is(t, "it was changed to", q.String(), `topic:a state:ready,dead reason~"b c"`)
}
