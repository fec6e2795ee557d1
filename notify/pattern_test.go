package notify_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

func TestMatch(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		pattern  string
		yes, not []string
	}{
		{"prices", []string{"prices"}, []string{"price", "prices.a", "Prices", "", "prices."}},
		{"prices.gold", []string{"prices.gold"}, []string{"prices", "prices.gold.a", "prices.silver", "pricesxgold"}},
		{"prices.*", []string{"prices.gold", "prices.-"}, []string{"prices", "prices.gold.a", "prices.", "price.gold", "prices..a"}},
		{"prices.>", []string{"prices.gold", "prices.a.b.c"}, []string{"prices", "prices.", "pricesa.b", "a.prices.b"}},
		{"*", []string{"a", "prices"}, []string{"a.b", "", "."}},
		{">", []string{"a", "a.b", "a.b.c"}, []string{"", "$dead.a", "$a"}},
		{"*.b", []string{"a.b", "b.b"}, []string{"b", "a.c", "a.b.c", ".b"}},
		{"*.*.c", []string{"a.b.c"}, []string{"a.c", "a.b.c.d", "a.b.d"}},
		{"a.*.c.>", []string{"a.b.c.d", "a.b.c.d.e"}, []string{"a.b.c", "a.c.d", "a.b.d.e"}},
		{"*.>", []string{"a.b", "a.b.c"}, []string{"a", "$dead.a"}},
		{"$dead.a", []string{"$dead.a"}, []string{"a", "$dead.a.b", "dead.a"}},
		{"$dead.*", []string{"$dead.a"}, []string{"a", "$dead.a.b", "x.a", "$other.a"}},
		{"$dead.>", []string{"$dead.a", "$dead.a.b"}, []string{"a", "$dead", "a.b"}},
		{"$dead.a.>", []string{"$dead.a.b"}, []string{"$dead.a", "a.b"}},
		{"*.*", []string{"a.b"}, []string{"$dead.a"}},
	} {
		p, err := notify.ParsePattern(test.pattern)
		if err != nil {
			t.Error(err)
			continue
		}
		if p.String() != test.pattern {
			t.Errorf("%s is written as %s", test.pattern, p)
		}
		topic, one := p.Topic()
		if plain := !strings.ContainsAny(test.pattern, "*>"); one != plain || topic != test.pattern {
			t.Errorf("%s is of the one topic %q, %v", test.pattern, topic, one)
		}
		for _, topic := range test.yes {
			if !p.Match(topic) {
				t.Errorf("%s does not match %s", test.pattern, topic)
			}
		}
		for _, topic := range test.not {
			if p.Match(topic) {
				t.Errorf("%s matches %q", test.pattern, topic)
			}
		}
	}
	var zero notify.Pattern
	if _, one := zero.Topic(); one || zero.Match("") || zero.Match("a") || zero.String() != "" {
		t.Error("the zero pattern matches something")
	}
}

var badPatterns = []string{
	"", ".", "a.", ".a", "a..b", "a b", "a.>.b", ">.a", ">>", "a>", ">a", "a.>b", "a*", "*a", "**", "a.**", "a.*.", "*.", ".*", ">.", ".>", "a,b",
	"a.*b.c", "ä.*", "*\n", "> ", "a:*", strings.Repeat("a", 127) + ".*", strings.Repeat("*.", 64) + "*", strings.Repeat("a", 129), "a/*", "#", "a.?",
	"$dead", "$dead.", "$", "$x", "$dead..a", "$dead.$dead.a", "$*", "$dead*", "a.$dead.b", "*.$dead", "$dead.a.>.b", "$dead." + strings.Repeat("a", 129),
}

func TestBadPattern(t *testing.T) {
	t.Parallel()
	for _, text := range badPatterns {
		p, err := notify.ParsePattern(text)
		if !errors.Is(err, notify.ErrInvalid) || len(err.Error()) > 800 {
			t.Errorf("%q is %v, %v; want an ErrInvalid", text, p, err)
		}
		if p.Match("a") || p.Match("a.b") {
			t.Errorf("%q is refused, and matches all the same", text)
		}
	}
	storetest.Should(t, storetest.ErrOf(notify.ParsePattern(strings.Repeat("a", 126)+".*")))
}

var patternGrammar = regexp.MustCompile(`^([A-Za-z0-9_-]+|\*)(\.([A-Za-z0-9_-]+|\*))*(\.>)?$|^>$`)

// matches defines a pattern in other terms: as a regular expression.
func matches(pattern, topic string) bool {
	const token = `[^.]+`
	expression := regexp.QuoteMeta(pattern)
	expression = strings.ReplaceAll(expression, `\*`, token)
	expression = strings.ReplaceAll(expression, ">", token+`(\.`+token+`)*`)
	return regexp.MustCompile(`(?s)^` + expression + `$`).MatchString(topic)
}

func FuzzPattern(f *testing.F) {
	for _, pattern := range append([]string{"a", "a.*", "a.>", "*.b.>", ">", "*"}, badPatterns...) {
		for _, topic := range []string{"a", "a.b", "a.b.c", "", ".", "a..b", "x.b.c.d"} {
			f.Add(pattern, topic)
		}
	}
	f.Fuzz(func(t *testing.T, pattern, topic string) {
		p, err := notify.ParsePattern(pattern)
		if good := len(pattern) <= record.MaxTopic && patternGrammar.MatchString(pattern); (err == nil) != good {
			t.Fatalf("%q: %v", pattern, err)
		}
		if err != nil {
			if !errors.Is(err, notify.ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		if p.String() != pattern {
			t.Fatalf("%q is written as %q", pattern, p)
		}
		if record.CheckTopic(topic) == nil && p.Match(topic) != matches(pattern, topic) {
			t.Fatalf("%q matches %q: %v", pattern, topic, p.Match(topic))
		}
		if p.Match(topic) && topic == "" {
			t.Fatalf("%q matches nothing", pattern)
		}
	})
}

func TestPosition(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]notify.Position{
		"0-0": 0, "0-1": 1, "1-0": 1000, "1732128000123-456": 1732128000123456, "253402300799999-999": 253402300799999999,
	} {
		p, err := record.ParsePosition(text)
		if err != nil || p != want || p.String() != text {
			t.Errorf("%s is %d, written %s, %v", text, p, p, err)
		}
		raw, err := p.MarshalText()
		var again notify.Position
		if err != nil || again.UnmarshalText(raw) != nil || again != p {
			t.Errorf("%s is written as %s and read as %v, %v", text, raw, again, err)
		}
	}
	if at := notify.Position(1732128000123456).Time(); !at.Equal(time.Date(2024, 11, 20, 18, 40, 0, 123456000, time.UTC)) {
		t.Errorf("it is of %v", at)
	}
}

var badPositions = []string{
	"", "-", "1", "1-", "-1", "1-1000", "1--1", "-1-1", "+1-1", "1-+1", "1-1-1", " 1-1", "1-1 ", "1_0-1", "0x1-1", "1.0-1", "253402300800000-0",
	"99999999999999999999-0", "1-99999999999999999999", "a-b", "१-१",
}

func FuzzPosition(f *testing.F) {
	for _, text := range append([]string{"0-0", "1732128000123-456"}, badPositions...) {
		f.Add(text)
	}
	grammar := regexp.MustCompile(`^[0-9]+-[0-9]+$`)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := record.ParsePosition(text)
		if err != nil {
			if !errors.Is(err, notify.ErrInvalid) || p != 0 {
				t.Fatalf("%d, %v", p, err)
			}
			return
		}
		again, err := record.ParsePosition(p.String())
		if err != nil || again != p || p < 0 || p.Time().After(record.MaxDue.Add(time.Millisecond)) || !grammar.MatchString(text) {
			t.Fatalf("%q is %d, written as %s and read as %d, %v", text, p, p, again, err)
		}
	})
}

func TestBadPosition(t *testing.T) {
	t.Parallel()
	for _, text := range badPositions {
		if p, err := record.ParsePosition(text); !errors.Is(err, notify.ErrInvalid) {
			t.Errorf("%q is %v, %v; want an ErrInvalid", text, p, err)
		}
	}
}
