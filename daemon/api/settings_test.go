package api_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/fields"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// Each setting has a description, and a valid example.
func TestSettingFields(t *testing.T) {
	storetest.Same(t, "settings", []string{"attempts", "lease", "backoff_min", "backoff_max", "archive_acked", "paused", "history", "key_concurrency", "on_retry", "on_dead", "concurrency", "rate", "burst", "branches", "branch_ttl"}, fields.Names[notify.SettingsChange]())
	for _, f := range fields.In[notify.SettingsChange]() {
		var change notify.SettingsChange
		if err := f.Set(reflect.ValueOf(&change).Elem(), f.Example); err != nil || f.Doc == "" {
			t.Errorf("%s: %q, %v", f.Name, f.Doc, err)
		}
	}
}

func TestDecodeSettings(t *testing.T) {
	for data, want := range map[string]notify.SettingsChange{
		`{"attempts":5}`: {Attempts: new(5)},
		` {"attempts":1000000,"lease":"1m","backoff_min":"1s","backoff_max":"10m","paused":true} `: {
			Attempts: new(1000000), Lease: new(time.Minute), BackoffMin: new(time.Second), BackoffMax: new(10 * time.Minute), Paused: new(true),
		},
		`{"attempts":null,"lease":null,"backoff_min":null,"backoff_max":null,"paused":null}`: {
			Default: []string{"attempts", "lease", "backoff_min", "backoff_max", "paused"},
		},
		`{"concurrency":200,"rate":"90/m","burst":5}`: {Concurrency: new(200), Rate: new(90 * record.PerMinute), Burst: new(5)},
		`{"branches":"+crm","branch_ttl":"7d"}`:       {Branches: new("+crm"), BranchTTL: new(7 * 24 * time.Hour)},
		`{"lease":"1d","paused":false}`:               {Lease: new(24 * time.Hour), Paused: new(false)},
		`{"backoff_min":"1h","backoff_max":null}`:     {BackoffMin: new(time.Hour), Default: []string{"backoff_max"}}, // the store checks this
		`{"\u0061ttempts":7,"backoff_max":"1d12h5s"}`: {Attempts: new(7), BackoffMax: new(36*time.Hour + 5*time.Second)},
	} {
		got, err := api.DecodeSettings("mail", []byte(data))
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", data, err, diff)
		}
	}
}

// wantFaults checks that an error has these faults, each FIELD: TEXT with a part of its sentence.
func wantFaults(t *testing.T, what string, err error, want ...string) {
	t.Helper()
	faults := fault.All(err)
	if len(faults) != len(want) || !errors.Is(err, notify.ErrInvalid) {
		t.Errorf("%s: got %d faults, want %d: %v", what, len(faults), len(want), err)
		return
	}
	for i, f := range faults {
		field, text, _ := strings.Cut(want[i], ": ")
		if f.Field != field || !strings.Contains(f.Error(), text) {
			t.Errorf("%s: fault %d is of %q: %v; want %q", what, i, f.Field, f, want[i])
		}
	}
}

func TestBadSettings(t *testing.T) {
	for data, want := range map[string][]string{
		``:                   {"settings: not a JSON object"},
		` `:                  {"settings: not a JSON object"},
		`null`:               {"settings: not a JSON object"},
		`[]`:                 {"settings: not a JSON object"},
		`{"attempts":5`:      {"settings: it is not JSON; write one such as {\"attempts\":5"},
		`{"attempts":5}x`:    {"settings: something follows the JSON object"},
		"{\"\xff\":5}":       {"settings: it is not UTF-8"},
		`{}`:                 {"settings: give one or more of attempts, lease, backoff_min, backoff_max, archive_acked, paused, history, key_concurrency, on_retry, on_dead, concurrency, rate, burst"},
		`{"ring_only":true}`: {`ring_only: setting "ring_only": it is gone, since messages are always handed over`},
		`{"atempts":5}`:      {`atempts: setting "atempts": it is unknown; did you mean attempts? use attempts, lease,`},
		`{"lease_ms":5}`:     {"lease_ms: did you mean lease?"},
		`{"Lease":"1m"}`:     {"Lease: did you mean lease?"},
		`{"priority":5}`:     {`priority: setting "priority": it is unknown; use attempts, lease,`},
		`{"attempts":"5","lease":60,"backoff_min":true,"backoff_max":{},"paused":"true"}`: {
			"attempts: attempts is a JSON string, and should be a whole number, such as 5, or null for the default", `lease: lease is a JSON number, and should be a string, such as "30s", or null`,
			"backoff_min: JSON bool", "backoff_max: JSON object", "paused: paused is a JSON string, and should be true or false, such as true, or null",
		},
		`{"attempts":[],"paused":1,"attempts":"x"}`: {`attempts: the key "attempts" is given twice; give it once`},
		`{"attempts":0,"lease":"1ms","backoff_min":"0s","backoff_max":"366d1s"}`: {
			`attempts: attempts "0": write a whole number from 1 to 1000000`, "lease: lease 1ms: use 100ms to 24h", "backoff_min: backoff_min 0s: use 1ms to 8784h", "backoff_max: use 1ms to 8784h",
		},
		`{"attempts":1000001,"lease":"1w","backoff_min":"","backoff_max":"-1s"}`: {
			"attempts: from 1 to 1000000", "lease: write a duration such as 500ms", "backoff_min: use 1ms to 8784h", "backoff_max: use 1ms to 8784h",
		},
		`{"concurrency":0,"rate":"0/s","burst":-1}`: {
			`concurrency: concurrency "0": write a whole number from 1 to 100000`, `rate: rate "0/s": write N/s, N/m or N/h, such as 1000/s, of at most 1000000/s`, `burst: burst "-1": write a whole number from 1 to 1000000`,
		},
		`{"rate":1000}`:                            {`rate: rate is a JSON number, and should be a string, such as "1000/s", or null for the default`},
		`{"attempts":1.5,"lease":"24h1ms"}`:        {"attempts: write a whole number", "lease: use 100ms to 24h"},
		`{"attempts":5,"attempts":5}`:              {`attempts: the key "attempts" is given twice; give it once`},
		`{"attempts":5,"\u0061ttempts":null}`:      {`attempts: the key "attempts" is given twice; give it once`},
		`{"backoff_min":"10m","backoff_max":"1m"}`: {"backoff_max: backoff_max 1m: it is less than backoff_min, 10m; set both, backoff_max the longer"},
		`{"backoff_min":"10m","backoff_max":"1m","x":1,"attempts":0}`: {
			`x: setting "x"`, `attempts: "0"`, "backoff_max: it is less than backoff_min, 10m",
		},
	} {
		_, err := api.DecodeSettings("mail", []byte(data))
		wantFaults(t, data, err, want...)
	}
	_, err := api.DecodeSettings(notify.AllTopics, []byte(`{"paused":true,"lease":"1"}`))
	wantFaults(t, "all topics", err, "lease: write a duration", "paused: it is not for all topics together; set it for each one")
	_, err = api.DecodeSettings(notify.AllTopics, []byte(`{"concurrency":5,"rate":"1/s","burst":null}`))
	wantFaults(t, "limits of all topics", err, "concurrency: it is not for all topics together; set it for each one", "rate: it is not for all topics together")
	storetest.Should(t, storetest.ErrOf(api.DecodeSettings(notify.AllTopics, []byte(`{"paused":null,"lease":"1s"}`))))
}

func TestReadSettings(t *testing.T) {
	got, err := api.ReadSettings("mail", []api.SettingText{{"attempts", new("5")}, {"lease", nil}, {"paused", new("false")}})
	if diff := cmp.Diff(notify.SettingsChange{Attempts: new(5), Paused: new(false), Default: []string{"lease"}}, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	_, err = api.ReadSettings("mail", []api.SettingText{{"attempts", new("")}, {"lease", new("30")}, {"lease", nil}, {"paused", new("yes")}})
	wantFaults(t, "text", err, `attempts: attempts "": write a whole number`, "lease: write a duration", "lease: given twice", "paused: write true or false")
	_, err = api.ReadSettings("mail", nil)
	wantFaults(t, "none", err, "settings: none is given")
}

// However large the refused input is, its faults are reported in few words.
func TestManyBadSettings(t *testing.T) {
	var b strings.Builder
	for i := range 900 {
		fmt.Fprintf(&b, `"a%d":1,`, i)
	}
	_, err := api.DecodeSettings("mail", []byte(`{`+b.String()+`"`+strings.Repeat("ü", 1<<19)+`":1}`))
	if n := len(fault.All(err)); n != 21 || !strings.Contains(err.Error(), "settings: 881 more were not read") {
		t.Errorf("%d faults: %.2000v", n, err)
	}
	_, err = api.DecodeSettings("mail", []byte(`{"`+strings.Repeat("ü", 1<<19)+`":1,"attempts":`+strings.Repeat("9", 1<<19)+`,"lease":"`+strings.Repeat("9", 1<<19)+`s"}`))
	if n := len(fault.All(err)); n != 3 || len(err.Error()) > 1000 {
		t.Errorf("%d faults: %.2000v", n, err)
	}
}

func TestSettingsOf(t *testing.T) {
	got, err := json.Marshal(api.SettingsOf("mail", notify.TopicSettings{
		Settings: notify.Settings{Attempts: 5, Lease: time.Minute, BackoffMin: time.Second, BackoffMax: 10 * time.Minute, History: true, KeyConcurrency: 1, OnRetry: "block", OnDead: "go"}, Own: []string{"attempts", "lease"},
	}))
	want := `{"topic":"mail","attempts":5,"lease_ms":60000,"backoff_min_ms":1000,"backoff_max_ms":600000,"archive_acked":false,"paused":false,"history":true,"key_concurrency":1,"on_retry":"block","on_dead":"go","concurrency":0,"rate":"none","burst":0,"branches":"","branch_ttl_ms":0,"own":["attempts","lease"]}`
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v", got, err)
	}
	if got, _ := json.Marshal(api.SettingsOf("mail", notify.TopicSettings{})); !strings.HasSuffix(string(got), `"own":[]}`) {
		t.Errorf("got %s", got)
	}
}
