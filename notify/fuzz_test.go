package notify_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/fields"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

func TestDecodeRecord(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1700000000123)
	tests := []struct {
		name string
		raw  string
		want notify.Record
	}{
		{"plain", "1700000000123\nbody", notify.Record{Published: at, FirstDue: at, Body: []byte("body")}},
		{"no body", "1700000000123\n", notify.Record{Published: at, FirstDue: at, Body: []byte{}}},
		{"newlines in the body", "1700000000123\n\n,{}\n", notify.Record{Published: at, FirstDue: at, Body: []byte("\n,{}\n")}},
		{"delayed", "1700000000123,90000\nbody", notify.Record{Published: at, FirstDue: at.Add(90 * time.Second), Body: []byte("body")}},
		{"at the beginning", "0\nbody", notify.Record{Published: time.UnixMilli(0), FirstDue: time.UnixMilli(0), Body: []byte("body")}},
		{"due at the end", "1700000000123,251702300799876\nbody", notify.Record{Published: at, FirstDue: record.MaxDue.Local(), Body: []byte("body")}},
		{
			"everything", `1700000000123,90000,{"type":"t/t","headers":{"k":"v,{"},"ttl":1500,"attempts":3}` + "\nbody",
			notify.Record{Published: at, FirstDue: at.Add(90 * time.Second), ContentType: "t/t", Headers: map[string]string{"k": "v,{"}, TTL: 1500 * time.Millisecond, MaxAttempts: 3, Body: []byte("body")},
		},
		{"a broadcast", `1700000000123,{"mode":"broadcast"}` + "\nbody", notify.Record{Published: at, Broadcast: true, Body: []byte("body")}},
		{"a field of later days", `1700000000123,{"color":"red"}` + "\nbody", notify.Record{Published: at, FirstDue: at, Body: []byte("body")}},
	}
	for _, test := range tests {
		got, err := record.Decode(test.raw)
		if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
			t.Errorf("%s: record (-want +got), %v:\n%s", test.name, err, diff)
		}
	}
}

var badRecords = []string{
	"", "\n", "body", "1700000000123", "1700000000123,90000", "x\nbody", "1.5\nbody", "\"1\"\nbody", "1e3\nbody", " 1\nbody", "1 \nbody",
	"-1\nbody", "253402300800000\nbody", "99999999999999999999\nbody", "+1\nbody", "007\nbody", "00\nbody",
	"1,\nbody", "1,0\nbody", "1,-1\nbody", "1,x\nbody", "1,01\nbody", "1,2,3\nbody", "1,2,\nbody", ",1\nbody", "1,253402300799999\nbody",
	"1700000000123,99999999999999999999\nbody",
	"1,{\"ttl\":-1}\nbody", "1,{\"ttl\":9223372036855}\nbody", "1,{\"attempts\":-1}\nbody", "1,{\"attempts\":1.5}\nbody", "1,{\"headers\":[]}\nbody",
	"1,{}x\nbody", "1,{\nbody", "1,{},{}\nbody", "1,0,{}\nbody", "1,2{}\nbody", "{}\nbody", ",{}\nbody", "{\"at\":1700000000123}\nbody", "[]\nbody",
	"1,null\nbody", "1,[]\nbody", "1,{\"at\":1\n}\nbody", "\xff\xfe\nbody",
}

func TestDecodeBadRecord(t *testing.T) {
	t.Parallel()
	for _, raw := range badRecords {
		if got, err := record.Decode(raw); !errors.Is(err, record.ErrRecord) {
			t.Errorf("%q is %+v, %v; want ErrRecord", raw, got, err)
		}
	}
}

func FuzzDecodeRecord(f *testing.F) {
	for _, raw := range badRecords {
		f.Add(raw)
	}
	f.Add("1700000000123\nbody")
	f.Add(`1,2,{"type":"t/t","headers":{"k":"v"},"ttl":1500,"attempts":3}` + "\n\x00\xff")
	f.Fuzz(func(t *testing.T, raw string) {
		got, err := record.Decode(raw)
		if err != nil {
			if !errors.Is(err, record.ErrRecord) {
				t.Errorf("%v is no ErrRecord", err)
			}
			return
		}
		head, body, found := strings.Cut(raw, "\n")
		if !found || !json.Valid([]byte("["+head+"]")) || string(got.Body) != body {
			t.Errorf("%q is a record with the body %q", raw, got.Body)
		}
		if first := got.FirstDue; !got.Broadcast && (first.Before(got.Published) || first.After(record.MaxDue)) || got.Broadcast != first.IsZero() {
			t.Errorf("first due out of range: %+v", got)
		}
		if got.Published.Before(time.UnixMilli(0)) || got.Published.After(record.MaxDue) || got.TTL < 0 || got.MaxAttempts < 0 {
			t.Errorf("out of range: %+v", got)
		}
	})
}

// A published record is read as it was written.
func FuzzRecordRoundTrip(f *testing.F) {
	f.Add([]byte("body"), "", "", "", int64(0), 0, int64(1700000000123))
	f.Add([]byte{}, "", "", "", int64(0), 0, int64(1700000000123))
	f.Add([]byte("\n{}\x00\xff"), "application/json", "X-Trace", "a\u2028\"\\<&>", int64(time.Millisecond), 1, int64(0))
	f.Add([]byte{0}, "t", "a", "", int64(1<<63-1), record.MostAttempts, int64(253402300799999))
	f.Fuzz(func(t *testing.T, body []byte, contentType, name, value string, ttl int64, attempts int, at int64) {
		m := notify.Message{Topic: topic, Body: body, ContentType: contentType, TTL: time.Duration(ttl), MaxAttempts: attempts}
		if name != "" {
			m.Headers = map[string]string{name: value}
		}
		published := time.UnixMilli(at)
		if m.Check() != nil || at < 0 || published.After(record.MaxDue) {
			t.Skip()
		}
		raw, err := m.Encode(published)
		storetest.Must(t, err)
		got, err := record.Decode(raw)
		want := notify.Record{
			Published: published, FirstDue: published, ContentType: contentType, Headers: m.Headers, TTL: m.TTL.Truncate(time.Millisecond), MaxAttempts: attempts, Body: body,
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("record (-want +got), %v:\n%s", err, diff)
		}
	})
}

func FuzzSplitMember(f *testing.F) {
	for _, member := range []string{"order.timeout:4711", "a:b:c", ":", "a:", ":b", "a.:b", "a:b\n", "ä:b", "a..b:c", strings.Repeat("a", 128) + ":b"} {
		f.Add(member)
	}
	f.Fuzz(func(t *testing.T, member string) {
		topic, id, err := record.SplitMember(member)
		switch {
		case err != nil && !errors.Is(err, notify.ErrInvalid):
			t.Errorf("%v is no ErrInvalid", err)
		case err == nil && (record.Member(topic, id) != member || record.CheckTopic(topic) != nil || record.CheckID(id) != nil):
			t.Errorf("%q became %q and %q", member, topic, id)
		}
	})
}

func TestParseDuration(t *testing.T) {
	t.Parallel()
	tests := map[string]time.Duration{
		"": 0, "0": 0, "500ms": 500 * time.Millisecond, "90s": 90 * time.Second, "1h30m": 90 * time.Minute, "1.5h": 90 * time.Minute, "-1s": -time.Second,
		"1d": 24 * time.Hour, "1d12h": 36 * time.Hour, "0.1d": 144 * time.Minute, "-1d1ms": -24*time.Hour - time.Millisecond, "106751d23h": 106751*24*time.Hour + 23*time.Hour,
	}
	for text, want := range tests {
		if got, err := fields.ParseDuration("delay", text); err != nil || got != want {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"1", "d", "-", "12h1d", "1d1d", "1d0", "1day", "soon", " 1s", "1s ", "1h-1m", "1e3s", "١s", strings.Repeat("\x00", 1<<20)} {
		_, err := fields.ParseDuration("delay", text)
		wantInvalid(t, err, "delay")
		if !strings.Contains(err.Error(), "write a duration such as") {
			t.Errorf("%.20q: %v does not say how to write it", text, err)
		}
	}
	for _, text := range []string{"9999999h", "2562048h", "106752d", "-106752d", "106751d24h", "99999999999999999999s", strings.Repeat("9", 1000) + "d"} {
		_, err := fields.ParseDuration("delay", text)
		wantInvalid(t, err, "delay")
		if !strings.Contains(err.Error(), "it is too long; the longest duration is 106751d") {
			t.Errorf("%.20q: %v does not say that it is too long", text, err)
		}
	}
}

func FuzzParseDuration(f *testing.F) {
	for _, text := range []string{"", "0", "90s", "1h30m", "-1.5ms", "1µs", "2562047h47m16.854775807s", "2562048h", "1d", "-106751d23h47m16.854775807s", "\xff"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := fields.ParseDuration("delay", text)
		if err != nil {
			wantInvalid(t, err, "delay")
			return
		}
		if again, err := fields.ParseDuration("delay", d.String()); err != nil || again != d {
			t.Errorf("%q is %v, which is %v, %v", text, d, again, err)
		}
	})
}

func TestParseLine(t *testing.T) {
	t.Parallel()
	due := time.Date(2099, 1, 2, 3, 4, 5, 0, time.UTC)
	tests := []struct {
		line string
		want notify.Message
	}{
		{`{"topic":"a","body":""}`, notify.Message{Topic: "a", Body: []byte{}}},
		{`{"topic":"a","body_base64":""}`, notify.Message{Topic: "a", Body: []byte{}}},
		{` {"topic":"a","mode":"message","body":"x","delay":"90s"} ` + "\n", notify.Message{Topic: "a", Body: []byte("x"), Delay: 90 * time.Second}},
		{`{"topic":"a","body_base64":"AP8="}`, notify.Message{Topic: "a", Body: []byte{0, 255}}},
		{
			`{"topic":"a","id":"b","due":"2099-01-02T03:04:05Z","ttl":"1h","attempts":3,"headers":{"k":"v"},"content_type":"t/t","body":"x"}`,
			notify.Message{Topic: "a", ID: "b", Due: due, TTL: anHour, MaxAttempts: 3, Headers: map[string]string{"k": "v"}, ContentType: "t/t", Body: []byte("x")},
		},
		{`{"topic":"a","body":"x","died":"2020-01-01T00:00:00Z","reason":"r","attempts_used":3}`, notify.Message{Topic: "a", Body: []byte("x")}},
	}
	for _, test := range tests {
		got, err := notify.ParseLine([]byte(test.line))
		if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
			t.Errorf("%s (-want +got), %v:\n%s", test.line, err, diff)
		}
	}
}

// A line that can be published can be exported and published again.
func FuzzParseLine(f *testing.F) {
	for _, line := range []string{
		`{}`, `{"topic":"a","body":"x"}`, `{"topic":"a","body_base64":"AP8="}`, `{"topic":"a","body":"\ud800"}`, `null`, `[{"topic":"a"}]`,
		`{"topic":"a","id":"b","due":"2099-01-02T03:04:05Z","ttl":"1h","attempts":3,"headers":{"k":"v"},"content_type":"t/t","body":"x"}`,
		`{"topic":"a","delay":"90s","body":"x"}`, `{"topic":"a","due":"0001-01-01T00:00:00Z","body":"x"}`, "{\"topic\":\"a\",\"body\":\"\xff\"}",
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := notify.ParseLine(raw)
		if err != nil {
			if !errors.Is(err, notify.ErrInvalid) {
				t.Errorf("%v is no ErrInvalid", err)
			}
			return
		}
		if !utf8.Valid(raw) {
			t.Errorf("%q was read, though it is not UTF-8", raw)
		}
		if m.ID == "" || m.Check() != nil {
			return
		}
		wantExported(t, m)
	})
}

// wantExported checks that a message survives its export as a dead letter.
func wantExported(t *testing.T, m notify.Message) {
	t.Helper()
	raw, err := m.Encode(past)
	storetest.Must(t, err)
	record, err := record.Decode(raw)
	storetest.Must(t, err)
	line, err := json.Marshal(notify.Info{Topic: m.Topic, ID: m.ID, State: notify.Dead, Died: past, Reason: "r", Attempts: 1, Record: record}.Line())
	storetest.Must(t, err)
	again, err := notify.ParseLine(line)
	want := m
	want.Delay, want.Due, want.TTL = 0, time.Time{}, m.TTL.Truncate(time.Millisecond)
	if len(want.Headers) == 0 {
		want.Headers = nil
	}
	if diff := cmp.Diff(want, again); diff != "" || err != nil {
		t.Errorf("exported as %s (-want +got), %v:\n%s", line, err, diff)
	}
}
