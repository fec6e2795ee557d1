package notify_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/fields"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// Every refusal names its field as JSON, HTTP, flags and options name it.
func TestWhichFieldIsWrong(t *testing.T) {
	t.Parallel()
	pub, _ := open(t)
	publishes := func(spoil func(m *notify.Message)) func() error {
		return func() error {
			m := notify.Message{Topic: "a"}
			spoil(&m)
			_, err := pub.Publish(t.Context(), m)
			return err
		}
	}
	parses := func(line string) func() error {
		return func() error { return storetest.ErrOf(notify.ParseLine([]byte(line))) }
	}
	opens := func(c notify.Config) func() error {
		return func() error { return storetest.ErrOf(notify.Open(c)) }
	}
	for _, test := range []struct {
		field string
		call  func() error
	}{
		{"topic", publishes(func(m *notify.Message) { m.Topic = "a b" })},
		{"id", publishes(func(m *notify.Message) { m.ID = "." })},
		{"body", publishes(func(m *notify.Message) { m.Body = make([]byte, notify.DefaultMaxBody+1) })},
		{"delay", publishes(func(m *notify.Message) { m.Delay = -1 })},
		{"due", publishes(func(m *notify.Message) { m.Due = record.MaxDue.Add(1) })},
		{"due", publishes(func(m *notify.Message) { m.Due, m.Delay = past, time.Second })},
		{"ttl", publishes(func(m *notify.Message) { m.TTL = 1 })},
		{"attempts", publishes(func(m *notify.Message) { m.MaxAttempts = -1 })},
		{"content_type", publishes(func(m *notify.Message) { m.ContentType = "\n" })},
		{"headers", publishes(func(m *notify.Message) { m.Headers = map[string]string{"a b": ""} })},
		{"restore.reason", publishes(func(m *notify.Message) { m.ID, m.Due, m.Restore = "a", past, &notify.Restore{Reason: "x"} })},
		{"line", parses(`x`)},
		{"delay", parses(`{"topic":"a","body":"","delay":1}`)},
		{"dealy", parses(`{"topic":"a","body":"","dealy":"1s"}`)},
		{"body", parses(`{"topic":"a","body":"","body":""}`)},
		{"mode", parses(`{"topic":"a","body":"","mode":"all"}`)},
		{"restore.attempts_used", parses(`{"topic":"a","body":"","restore":{"attempts_used":"1"}}`)},
		{"url", opens(notify.Config{URL: "http://a"})},
		{"password_file", opens(notify.Config{PasswordFile: "/nowhere/password"})},
		{"sentinel_password_file", opens(notify.Config{SentinelUsername: "a"})},
		{"ca_file", opens(notify.Config{CAFile: "/nowhere/ca"})},
		{"cert_file", opens(notify.Config{KeyFile: "/nowhere/key"})},
		{"prefix", opens(notify.Config{Prefix: "a b"})},
		{"wait_replicas", opens(notify.Config{WaitReplicas: -1})},
		{"memory_share", opens(notify.Config{MemoryShare: 101})},
		{"state", func() error { return storetest.ErrOf(record.ParseState("gone")) }},
		{"pattern", func() error { return storetest.ErrOf(notify.ParsePattern("a..b")) }},
		{"position", func() error { return storetest.ErrOf(record.ParsePosition("a")) }},
		{"wait", func() error { return storetest.ErrOf(fields.ParseDuration("wait", "long")) }},
		{"limit", func() error { return storetest.ErrOf(pub.List(t.Context(), "a", notify.Dead, 0, "")) }},
		{"cursor", func() error { return storetest.ErrOf(pub.List(t.Context(), "a", notify.Dead, 1, "x")) }},
	} {
		err := test.call()
		var fault *notify.Fault
		if !errors.As(err, &fault) || fault.Field != test.field || !errors.Is(err, notify.ErrInvalid) {
			t.Errorf("%v is a fault of %+v; want the field %s", err, fault, test.field)
		}
	}
}

// All faults of a message are reported at once, each with a sentence of its own.
func TestAllFaultsOfAMessage(t *testing.T) {
	pub := storetest.Publisher(t, storetest.Open(t))
	wrong := notify.Message{
		Topic: "a b", ID: ".", Body: make([]byte, notify.DefaultMaxBody+1), Delay: -1, Due: record.MaxDue.Add(1), TTL: -1, MaxAttempts: -1,
		ContentType: "\n", Headers: map[string]string{"a b": ""},
	}
	_, errPublish := pub.Publish(t.Context(), wrong)
	_, errReschedule := pub.RescheduleIn(t.Context(), "a b", ".", -1)
	_, errRestore := pub.Publish(t.Context(), notify.Message{Topic: "a", Restore: &notify.Restore{Reason: "x", AttemptsUsed: -1}})
	for _, test := range []struct {
		err  error
		want string
	}{
		{errPublish, "topic id delay due due ttl attempts content_type body headers"},
		{errReschedule, "topic id delay"},
		{errRestore, "restore due restore.attempts_used restore.reason"},
	} {
		var fields, sentences []string
		for _, fault := range fault.All(test.err) {
			fields, sentences = append(fields, fault.Field), append(sentences, fault.Error())
		}
		if got := strings.Join(fields, " "); got != test.want || test.err.Error() != strings.Join(sentences, "\n") {
			t.Errorf("%s: %v; want %s", got, test.err, test.want)
		}
	}
}

// All faults of a configuration are reported at once.
func TestAllFaultsOfAConfig(t *testing.T) {
	t.Parallel()
	_, err := notify.Open(notify.Config{PasswordFile: "/nowhere/password", Prefix: "a b", WaitReplicas: -1, MemoryShare: 101})
	if several, ok := err.(interface{ Unwrap() []error }); !ok || len(several.Unwrap()) != 4 {
		t.Errorf("%v; want four faults", err)
	}
}
