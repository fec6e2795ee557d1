package fields_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/store/fields"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// A line of JSON has the fields that HTTP, NATS and the command line read, by the same names.
func TestMessageFields(t *testing.T) {
	var names []string
	for _, f := range fields.In[notify.Message]() {
		names = append(names, f.Name)
		if f.Doc == "" || f.Example == "" {
			t.Errorf("%s: it has no doc or no example", f.Name)
		}
		field, ok := reflect.TypeFor[notify.Line]().FieldByNameFunc(func(name string) bool {
			of, _ := reflect.TypeFor[notify.Line]().FieldByName(name)
			json, _, _ := strings.Cut(of.Tag.Get("json"), ",")
			return json == f.Name
		})
		if !ok {
			t.Errorf("a line of JSON has no %s: %v", f.Name, field)
		}
	}
	if diff := cmp.Diff([]string{"id", "key", "if_busy", "group", "after_group", "on_dead", "delay", "due", "zone", "spread", "ttl", "attempts", "lease", "try_timeout", "fail", "late_after", "late", "if_exists", "max_wait", "then", "unique_for", "content_type"}, names); diff != "" {
		t.Error(diff)
	}
}

func TestSetFields(t *testing.T) {
	all := make(map[string]fields.Field)
	for _, f := range fields.In[notify.Message]() {
		all[f.Name] = f
	}
	for _, test := range []struct {
		name, text string
		want       notify.Message
		fault      string
		strictly   bool // refused by limits only
	}{
		{name: "id", text: "a:1", want: notify.Message{ID: "a:1"}},
		{name: "id", text: "a b", fault: "letters, digits"},
		{name: "delay", text: "1d", want: notify.Message{Delay: 24 * time.Hour}},
		{name: "delay", text: "soon", fault: "write a duration"},
		{name: "delay", text: "-1s", fault: "it is negative; use zero or more", strictly: true},
		{name: "due", text: "2030-01-02T15:04:05Z", want: notify.Message{Due: time.Date(2030, 1, 2, 15, 4, 5, 0, time.UTC)}},
		{name: "due", text: "tomorrow", fault: "write a time such as"},
		{name: "due", text: "1969-01-02T15:04:05Z", fault: "before 1970"},
		{name: "due", text: "2030-01-02T15:04", want: notify.Message{Due: time.Date(2030, 1, 2, 15, 4, 0, 0, calendar.Wall)}},
		{name: "due", text: "2030-01-02T15:04:05.678", want: notify.Message{Due: time.Date(2030, 1, 2, 15, 4, 5, 678_000_000, calendar.Wall)}},
		{name: "due", text: "2030-13-02T15:04", fault: `due "2030-13-02T15:04": write a time such as 2030-01-02T15:04:05Z, or of a zone`},
		{name: "due", text: "2030-01-02T15:04Z", fault: "write a time such as"},
		{name: "due", text: "0001-01-01T00:00", fault: "write a time such as"},
		{name: "spread", text: "10m", want: notify.Message{Spread: 10 * time.Minute}},
		{name: "spread", text: "0s", fault: "use 1ms to 24h", strictly: true},
		{name: "ttl", text: "1ms", want: notify.Message{TTL: time.Millisecond}},
		{name: "ttl", text: "0s", fault: "use 1ms or more", strictly: true},
		{name: "attempts", text: "1000000", want: notify.Message{MaxAttempts: record.MostAttempts}},
		{name: "attempts", text: "many", fault: "write a whole number from 1 to 1000000"},
		{name: "attempts", text: "0", fault: "write a whole number from 1 to 1000000", strictly: true},
		{name: "content_type", text: "text/plain", want: notify.Message{ContentType: "text/plain"}},
		{name: "content_type", text: strings.Repeat("a", 256), fault: "at most 255 bytes"},
	} {
		var m notify.Message
		err := all[test.name].Set(reflect.ValueOf(&m).Elem(), test.text)
		var fault *notify.Fault
		if test.fault == "" {
			if diff := cmp.Diff(test.want, m); err != nil || diff != "" {
				t.Errorf("%s %.20q: %v %s", test.name, test.text, err, diff)
			}
			continue
		}
		if !errors.As(err, &fault) || fault.Field != test.name || !strings.Contains(err.Error(), test.fault) {
			t.Errorf("%s %.20q: %v, want a fault with %q", test.name, test.text, err, test.fault)
		}
		if err := all[test.name].Lenient().Set(reflect.ValueOf(&m).Elem(), test.text); (err == nil) != test.strictly {
			t.Errorf("%s %.20q without limits: %v", test.name, test.text, err)
		}
	}
}
