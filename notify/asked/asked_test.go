package asked_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/asked"
	"github.com/bellhopd/bellhop/notify/store/fields"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// all is a record that asks for everything.
var all = notify.Record{
	Key: "acct-7", IfBusy: "drop", Group: "import-7", AfterGroup: "row.import:import-6", OnDead: "go", MaxAttempts: 3, TTL: time.Hour, Lease: 45 * time.Second, TryTimeout: 5 * time.Minute, Fail: notify.FailDrop, LateAfter: 1500 * time.Millisecond,
	Late: notify.LateBury, UniqueFor: 24 * time.Hour, ContentType: "text/plain", Headers: map[string]string{"Tenant": "acme", "A": "b"},
}

// Whatever a record holds that its publisher asked for is shown, and comes back.
func TestEverythingIsShown(t *testing.T) {
	notAsked := []string{"Published", "FirstDue", "Broadcast", "Body"}
	var seen []string
	for f := range reflect.TypeFor[asked.Options]().Fields() {
		seen = append(seen, f.Name)
		if reflect.ValueOf(asked.Of(all)).FieldByName(f.Name).IsZero() {
			t.Errorf("%s is not set: it must have a value here", f.Name)
		}
	}
	for f := range reflect.TypeFor[record.Record]().Fields() {
		if !slices.Contains(notAsked, f.Name) && !slices.Contains(seen, f.Name) {
			t.Errorf("nothing shows %s of a record", f.Name)
		}
	}
	var back notify.Record
	asked.Of(all).Into(&back)
	if diff := cmp.Diff(all, back); diff != "" {
		t.Error(diff)
	}
	text, err := json.Marshal(asked.Of(all))
	want := `{"key":"acct-7","if_busy":"drop","group":"import-7","after_group":"row.import:import-6","on_dead":"go","attempts":3,"ttl_ms":3600000,"lease_ms":45000,"try_timeout_ms":300000,"fail":"drop","late_after_ms":1500,"late":"bury",` +
		`"unique_for_ms":86400000,"content_type":"text/plain","headers":{"A":"b","Tenant":"acme"}}`
	if err != nil || string(text) != want {
		t.Errorf("%s, %v; want %s", text, err, want)
	}
}

// What a message can be published with is what its record shows, by the same names.
func TestMessageHasAll(t *testing.T) {
	var m notify.Message
	fields.Fill(&m, &all)
	for f := range reflect.TypeFor[asked.Options]().Fields() {
		if reflect.ValueOf(m).FieldByName(f.Name).IsZero() {
			t.Errorf("a message has no %s", f.Name)
		}
	}
	var line notify.Line
	fields.Fill(&line, &all, "FirstDue", "Body")
	text, err := json.Marshal(line)
	want := `{"topic":"","key":"acct-7","if_busy":"drop","group":"import-7","after_group":"row.import:import-6","on_dead":"go","ttl":"1h0m0s","attempts":3,"lease":"45s","try_timeout":"5m0s","fail":"drop","late_after":"1.5s","late":"bury",` +
		`"unique_for":"24h0m0s","headers":{"A":"b","Tenant":"acme"},"content_type":"text/plain"}`
	if err != nil || string(text) != want {
		t.Errorf("%s, %v; want %s", text, err, want)
	}
}

func TestNamed(t *testing.T) {
	want := []asked.Named{
		{"key", "acct-7"},
		{"if its key is busy", "drop"},
		{"group", "import-7"},
		{"after group", "row.import:import-6"},
		{"if one of that is dead", "go"},
		{"limit of attempts", "3"},
		{"time to live", "1h"},
		{"lease", "45s"},
		{"try timeout", "5m"},
		{"if it fails", "drop"},
		{"late after", "1.5s"},
		{"if it is late", "bury"},
		{"id taken for", "24h"},
		{"content type", "text/plain"},
		{"header A", "b"},
		{"header Tenant", "acme"},
	}
	if diff := cmp.Diff(want, asked.Of(all).Named()); diff != "" {
		t.Error(diff)
	}
	if none := asked.Of(notify.Record{}).Named(); none != nil {
		t.Errorf("nothing is %v", none)
	}
}

// A handler gets the key as it gets the content type and the headers: each transport by the same name.
func TestDelivered(t *testing.T) {
	text, err := json.Marshal(asked.DeliveredOf(&all, 7))
	if want := `{"key":"acct-7","fence":7,"group":"import-7","content_type":"text/plain","headers":{"A":"b","Tenant":"acme"}}`; err != nil || string(text) != want {
		t.Errorf("%s, %v; want %s", text, err, want)
	}
	got := asked.Attributes(&all, 7)
	if diff := cmp.Diff([]asked.Named{{"key", "acct-7"}, {"fence", "7"}, {"group", "import-7"}}, got); diff != "" || got[0].Header() != "Bellhop-Key" {
		t.Error(diff, got)
	}
	if none := asked.Attributes(&notify.Record{}, 0); none != nil {
		t.Errorf("nothing is %v", none)
	}
	for _, one := range asked.Describe() {
		if one.Text == "" {
			t.Errorf("%s has no doc", one.Name)
		}
	}
}
