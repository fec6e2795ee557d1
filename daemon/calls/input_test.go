package calls_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify"
)

// input has a parameter of each kind.
type input struct {
	calls.OfTopic
	calls.ClaimOptions
	Next  bool           `query:"next" default:"false"`
	Delay *time.Duration `query:"after" shortest:"0s"`
	M     notify.Message `has:"due"`
}

func read(topic, data string) (in input, err error) {
	err = calls.ReadJSON(calls.Call{Input: reflect.TypeFor[input]()}.Params(), topic, []byte(data), reflect.ValueOf(&in).Elem())
	return in, err
}

func TestReadJSON(t *testing.T) {
	due, delay := time.Date(2030, 1, 2, 15, 4, 5, 678e6, time.UTC), time.Duration(0)
	in, err := read("orders", ` {"lease":"30s","next":true,"after":"0s","due":"2030-01-02T16:04:05.678+01:00","worker":"","ack":null} `)
	if err != nil || in.Topic != "orders" || in.Max != 1 || in.Lease != 30*time.Second || !in.Next || *in.Delay != delay || !in.M.Due.Equal(due) || in.Worker+in.Ack != "" {
		t.Errorf("got %+v, %v", in, err)
	}
	for _, none := range []string{"", "{}", `{"max":null,"due":""}`} {
		if in, err := read("orders", none); err != nil || in.Max != 1 || in.Lease != 0 || in.Next || in.Delay != nil || !in.M.Due.IsZero() {
			t.Errorf("%q: got %+v, %v", none, in, err)
		}
	}
}

// Each wrong member is refused by its name, and all are at once.
func TestReadWrongJSON(t *testing.T) {
	for data, want := range map[string]string{
		"null":                         "it is not a JSON object; write one JSON object whose fields are max, lease, min_age",
		"[]":                           "it is not a JSON object",
		"{":                            "it is not JSON",
		`{"max":1,}`:                   "it is not JSON",
		`{"max":1}x`:                   "something follows the JSON object",
		`{"max":1}{}`:                  "something follows the JSON object",
		"{\"lease\":\"\xff\"}":         "it is not UTF-8",
		`{"max":1,"max":2}`:            `the key "max" is given twice`,
		`{"max":1,"MAX":2}`:            "differ only in case",
		`{"lease":"\ud83d"}`:           "half of a surrogate pair",
		`{"max":"1"}`:                  "max is a JSON string, and should be a whole number",
		`{"max":1.5}`:                  `max "1.5": write a whole number from 1 to 500`,
		`{"max":1e99}`:                 `max "1e99": write a whole number from 1 to 500`,
		`{"lease":{}}`:                 "lease is a JSON object, and should be a string",
		`{"lease":"1ms"}`:              "lease 1ms: use 100ms to 24h",
		`{"next":"true"}`:              "next is a JSON string, and should be true or false",
		`{"next":1}`:                   "next is a JSON number, and should be true or false",
		`{"after":"-1s"}`:              "after -1s: it is negative",
		`{"due":"soon"}`:               "due",
		`{"wit":"1s"}`:                 `the field "wit" is unknown; use max, lease`,
		`{"topic":"pay"}`:              `the field "topic" is unknown`, // it stands in the subject
		`{"MAX":1}`:                    `the field "MAX" is unknown`,
		`{"ack":"now","lease":"30s"}`:  "ack: it is given beside lease; give one of them",
		`{"max":0,"lease":"x","no":1}`: "no",
	} {
		_, err := read("orders", data)
		if !errors.Is(err, notify.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an ErrInvalid with %q in it", data, err, want)
		}
	}
	if _, err := read("orders", `{"max":0,"lease":"x","no":1}`); strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("got %v", err)
	}
	if _, err := read("no!topic", ""); err == nil || !strings.Contains(err.Error(), "no!topic") {
		t.Errorf("got %v", err)
	}
}
