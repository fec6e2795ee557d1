package notify_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

func TestBadMessage(t *testing.T) {
	t.Parallel()
	headers := func(n, size int) map[string]string {
		all := map[string]string{}
		for i := range n {
			all[fmt.Sprintf("h%03d", i)] = strings.Repeat("v", size)
		}
		return all
	}
	header := func(name, value string) func(*notify.Message) {
		return func(m *notify.Message) { m.Headers = map[string]string{name: value} }
	}
	topicOf := func(topic string) func(*notify.Message) { return func(m *notify.Message) { m.Topic = topic } }
	idOf := func(id string) func(*notify.Message) { return func(m *notify.Message) { m.ID = id } }
	groupOf := func(group string) func(*notify.Message) { return func(m *notify.Message) { m.Group = group } }
	after := func(group string) func(*notify.Message) { return func(m *notify.Message) { m.AfterGroup = group } }
	dueAt := func(due time.Time) func(*notify.Message) { return func(m *notify.Message) { m.Due = due } }

	huge := strings.Repeat("\x00", 1<<20) // of which an error shows only the beginning
	tests := []struct {
		name  string
		spoil func(*notify.Message)
		field string
	}{
		{"no topic", topicOf(""), "topic"},
		{"topic with a space", topicOf("order timeout"), "topic"},
		{"topic with a colon", topicOf("order:timeout"), "topic"},
		{"topic with a slash", topicOf("order/timeout"), "topic"},
		{"topic with a star", topicOf("order.*"), "topic"},
		{"topic that is a dot", topicOf("."), "topic"},
		{"topic with a dot in front", topicOf(".order"), "topic"},
		{"topic with a dot behind", topicOf("order."), "topic"},
		{"topic with two dots", topicOf("order..timeout"), "topic"},
		{"topic with a newline behind", topicOf("order\n"), "topic"},
		{"topic with a zero byte", topicOf("order\x00"), "topic"},
		{"topic with an umlaut", topicOf("aufträge"), "topic"},
		{"topic with broken UTF-8", topicOf("order\xff"), "topic"},
		{"too long a topic", topicOf(strings.Repeat("t", record.MaxTopic+1)), "topic"},
		{"group with a space", groupOf("a b"), "group"},
		{"group that begins with a ~", groupOf("~a"), "group"},
		{"too long a group", groupOf(strings.Repeat("g", 129)), "group"},
		{"broadcast in a group", func(m *notify.Message) { m.Group, m.Broadcast = "g", true }, "group"},
		{"broadcast after a group", func(m *notify.Message) { m.AfterGroup, m.Broadcast = "orders:g", true }, "after_group"},
		{"after a group without a topic", after("import-7"), "after_group"},
		{"after a group of a pattern", after("orders.*:g"), "after_group"},
		{"after a group with a space", after("orders:a b"), "after_group"},
		{"after a group with a delay", func(m *notify.Message) { m.AfterGroup, m.Delay = "orders:g", time.Second }, "after_group"},
		{"after a group at a time", func(m *notify.Message) { m.AfterGroup, m.Due = "orders:g", time.Now() }, "after_group"},
		{"after a group with a spread", func(m *notify.Message) { m.AfterGroup, m.Spread = "orders:g", time.Second }, "after_group"},
		{"after a group, debounced", func(m *notify.Message) { m.AfterGroup, m.ID, m.IfExists = "orders:g", "a", notify.Debounce }, "if_exists"},
		{"after a group, following", func(m *notify.Message) { m.AfterGroup, m.ID, m.Then = "orders:g", "a", notify.After }, "then"},
		{"in a group, following", func(m *notify.Message) { m.Group, m.ID, m.Then = "g", "a", notify.After }, "then"},
		{"on_dead alone", func(m *notify.Message) { m.OnDead = "go" }, "on_dead"},
		{"on_dead of another word", func(m *notify.Message) { m.AfterGroup, m.OnDead = "orders:g", "bury" }, "on_dead"},
		{"id with a space", idOf("a b"), "id"},
		{"id with a slash", idOf("a/b"), "id"},
		{"id with a newline behind", idOf("a\n"), "id"},
		{"id with a zero byte", idOf("a\x00"), "id"},
		{"id with an umlaut", idOf("ä"), "id"},
		{"id that is a dot", idOf("."), "id"},
		{"id that is two dots", idOf(".."), "id"},
		{"headers that differ in case", func(m *notify.Message) { m.Headers = map[string]string{"To": "a", "b": "", "TO": "c"} }, "headers TO and To"},
		{"id with braces", idOf("{0}"), "id"},
		{"too long an id", idOf(strings.Repeat("i", record.MaxID+1)), "id"},
		{"too large a body", func(m *notify.Message) { m.Body = make([]byte, notify.DefaultMaxBody+1) }, "body"},
		{"negative delay", func(m *notify.Message) { m.Delay = -1 }, "delay"},
		{"most negative delay", func(m *notify.Message) { m.Delay = -1 << 63 }, "delay"},
		{"delay and due", func(m *notify.Message) { m.Delay, m.Due = time.Second, future }, "delay and due"},
		{"the longest delay from the last due time", func(m *notify.Message) { m.Delay, m.Due = 1<<63-1, record.MaxDue }, "delay and due"},
		{"negative delay and due", func(m *notify.Message) { m.Delay, m.Due = -1, future }, "delay and due"},
		{"due past the year 9999", dueAt(record.MaxDue.Add(time.Millisecond)), "due"},
		{"due just past the year 9999", dueAt(record.MaxDue.Add(1)), "due"},
		{"due absurdly late", dueAt(time.Unix(1<<62, 0)), "due"},
		{"due before 1970", dueAt(time.UnixMilli(-1)), "due"},
		{"due just before 1970", dueAt(time.Unix(0, -1)), "due"},
		{"due in the year 1", dueAt(time.Time{}.Add(1)), "due"},
		{"due absurdly early", dueAt(time.Unix(-1<<62, 0)), "due"},
		{"due so early that milliseconds overflow", dueAt(time.Unix(-10_000_000_000_000_000, 0)), "due"},
		{"due on a wall without a zone", dueAt(time.Date(2030, 1, 2, 8, 0, 0, 0, calendar.Wall)), "due"},
		{"zone without due", func(m *notify.Message) { m.Zone = "Europe/Berlin" }, "due"},
		{"zone and delay", func(m *notify.Message) { m.Zone, m.Delay = "Europe/Berlin", time.Second }, "delay and zone"},
		{"zone and due with an offset", func(m *notify.Message) { m.Zone, m.Due = "Europe/Berlin", future }, "zone"},
		{"unknown zone", func(m *notify.Message) { m.Zone, m.Due = "Berlin", time.Date(2030, 1, 2, 8, 0, 0, 0, calendar.Wall) }, "zone"},
		{"due past the year 9999 in its zone", func(m *notify.Message) {
			m.Zone, m.Due = "America/New_York", time.Date(9999, 12, 31, 23, 0, 0, 0, calendar.Wall)
		}, "due"},
		{"negative spread", func(m *notify.Message) { m.Spread = -time.Second }, "spread"},
		{"spread under a millisecond", func(m *notify.Message) { m.Spread = time.Millisecond - 1 }, "spread"},
		{"spread of more than a day", func(m *notify.Message) { m.Spread = 24*time.Hour + 1 }, "spread"},
		{"negative ttl", func(m *notify.Message) { m.TTL = -time.Second }, "ttl"},
		{"ttl under a millisecond", func(m *notify.Message) { m.TTL = time.Millisecond - 1 }, "ttl"},
		{"negative attempts", func(m *notify.Message) { m.MaxAttempts = -1 }, "attempts"},
		{"too many attempts", func(m *notify.Message) { m.MaxAttempts = record.MostAttempts + 1 }, "attempts"},
		{"content type of two lines", func(m *notify.Message) { m.ContentType = "text/plain\r\nX: y" }, "content type"},
		{"content type of broken UTF-8", func(m *notify.Message) { m.ContentType = "text/\xff" }, "content type"},
		{"too long a content type", func(m *notify.Message) { m.ContentType = strings.Repeat("t", 256) }, "content type"},
		{"absurdly long a content type", func(m *notify.Message) { m.ContentType = huge }, "content type"},
		{"absurdly long a topic", topicOf(huge), "topic"},
		{"absurdly long an id", idOf(huge), "id"},
		{"absurdly long a header name", header(huge, "v"), "header"},
		{"absurdly long a header name and a bad value", header(strings.Repeat("h", 1<<20), huge), "header"},
		{"header without a name", header("", "v"), "header"},
		{"header name with a space", header("a b", "v"), "header"},
		{"header name with a colon", header("a:b", "v"), "header"},
		{"header name with a newline", header("a\n", "v"), "header"},
		{"header name with an umlaut", header("ä", "v"), "header"},
		{"header value of two lines", header("name", "a\nb"), "header name"},
		{"header value with a zero byte", header("name", "\x00"), "header name"},
		{"header value with a delete", header("name", "\x7f"), "header name"},
		{"header value of broken UTF-8", header("name", "\xff"), "header name"},
		{"too many headers", func(m *notify.Message) { m.Headers = headers(record.MaxHeaders+1, 1) }, "headers"},
		{"too large headers", func(m *notify.Message) { m.Headers = headers(2, record.MaxHeaderBytes/2) }, "headers"},
	}
	pub, db := open(t)
	publish(t, pub, message("waits", future))
	publish(t, pub, message("ready", past))
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := notify.Message{Topic: topic, ID: "a", Body: []byte("x")}
			test.spoil(&m)
			unchanged(t, db, func() {
				_, err := pub.Publish(t.Context(), m)
				wantInvalid(t, err, test.field)
				wantInvalid(t, pub.PublishMany(t.Context(), []notify.Message{m})[0].Err, test.field)
			})
		})
	}
}

// wantInvalid checks that an error is an ErrInvalid that names a field first.
func wantInvalid(t *testing.T, err error, field string) {
	t.Helper()
	if !errors.Is(err, notify.ErrInvalid) {
		t.Fatalf("%v; want ErrInvalid", err)
	}
	var fault *notify.Fault
	if !errors.As(err, &fault) || fault.Field == "" {
		t.Errorf("%q is the fault of no field", err)
	}
	if !strings.Contains(err.Error(), "invalid "+field) {
		t.Errorf("%q does not name the field %s", err, field)
	}
	if len(err.Error()) > 1000 {
		t.Errorf("an error of %d bytes: %.100q…", len(err.Error()), err)
	}
}

func TestTheLimitsThemselvesAreAllowed(t *testing.T) {
	t.Parallel()
	pub, _ := open(t)
	m := notify.Message{
		Topic: strings.Repeat("t", record.MaxTopic), ID: strings.Repeat("~", record.MaxID),
		Body: make([]byte, notify.DefaultMaxBody), TTL: 1<<63 - 1, MaxAttempts: record.MostAttempts,
		ContentType: strings.Repeat("t", 255), Headers: map[string]string{"h": strings.Repeat("v", record.MaxHeaderBytes-1)},
	}
	publish(t, pub, m)
	m.TTL = m.TTL.Truncate(time.Millisecond)
	wantRecord(t, pub, m)
	publish(t, pub, notify.Message{Topic: "A-z_0.9", ID: "A.z_9~:-", Body: []byte("x")})
	many := map[string]string{}
	for i := range record.MaxHeaders {
		many[fmt.Sprint("!#$%&'*+.^_`|~-", i)] = "v"
	}
	publish(t, pub, notify.Message{Topic: topic, Body: []byte("x"), Headers: many})
}

func TestOwnLimitOfTheBody(t *testing.T) {
	t.Parallel()
	_, db := open(t)
	pub := storetest.Publisher(t, db, notify.PublisherOptions{MaxBody: 10})
	publish(t, client{Publisher: pub}, notify.Message{Topic: topic, Body: make([]byte, 10)})
	unchanged(t, db, func() {
		_, err := pub.Publish(t.Context(), notify.Message{Topic: topic, Body: make([]byte, 11)})
		wantInvalid(t, err, "body")
	})
}

// A delay of at most 292 years ends past the year 9999 only if Redis's clock is wrong,
// so the test passes the script a delay that Go refuses.
func TestDelayThatOnlyRedisCanRefuse(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	publish(t, pub, message("waits", future))
	for _, ttl := range []time.Duration{0, time.Second} {
		unchanged(t, db, func() {
			_, err := pub.PublishWhen(t.Context(), notify.Message{Topic: topic, ID: "a", Body: []byte("x"), Delay: time.Second, TTL: ttl}, -253402300799999)
			wantInvalid(t, err, "delay")
		})
	}
}

func TestBadCall(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	publish(t, pub, message("a", future))
	type call func(ctx context.Context) error
	cancel := func(topic, id string) call {
		return func(ctx context.Context) error { return storetest.ErrOf(pub.Cancel(ctx, topic, id)) }
	}
	reschedule := func(topic, id string, delay time.Duration, due time.Time) call {
		return func(ctx context.Context) error { return storetest.ErrOf(pub.reschedule(ctx, topic, id, delay, due)) }
	}
	inspect := func(topic, id string) call {
		return func(ctx context.Context) error { return storetest.ErrOf(pub.Inspect(ctx, topic, id)) }
	}
	list := func(topic string, state notify.State, limit int, cursor string) call {
		return func(ctx context.Context) error { return storetest.ErrOf(pub.List(ctx, topic, state, limit, cursor)) }
	}
	tests := []struct {
		name  string
		call  call
		field string
	}{
		{"cancel, topic", cancel("a b", "a"), "topic"},
		{"cancel, id", cancel(topic, "a b"), "id"},
		{"cancel, no id", cancel(topic, ""), "id"},
		{"reschedule, topic", reschedule("", "a", 0, time.Time{}), "topic"},
		{"reschedule, id", reschedule(topic, "", 0, time.Time{}), "id"},
		{"reschedule, negative delay", reschedule(topic, "a", -1, time.Time{}), "delay"},
		{"reschedule, past the year 9999", reschedule(topic, "a", 0, record.MaxDue.Add(anHour)), "due"},
		{"reschedule, before 1970", reschedule(topic, "a", 0, time.Unix(-1, 0)), "due"},
		{"inspect, topic", inspect("a:b", "a"), "topic"},
		{"inspect, id", inspect(topic, "a/b"), "id"},
		{"list, topic", list("*", notify.Ready, 1, ""), "topic"},
		{"list, no state", list(topic, 0, 1, ""), "state"},
		{"list, unknown state", list(topic, notify.Done+1, 1, ""), "state"},
		{"list, no limit", list(topic, notify.Ready, 0, ""), "limit"},
		{"list, too large a limit", list(topic, notify.Ready, notify.MaxPage+1, ""), "limit"},
		{"list, cursor that is none", list(topic, notify.Ready, 1, "!"), "cursor"},
		{"list, absurdly long a cursor", list(topic, notify.Ready, 1, strings.Repeat("\x00", 1<<20)), "cursor"},
		{"list, cursor without a member", list(topic, notify.Ready, 1, cursor("1700000000000")), "cursor"},
		{"list, cursor without a time", list(topic, notify.Ready, 1, cursor("a b")), "cursor"},
		{"list, cursor of infinity", list(topic, notify.Ready, 1, cursor("+inf b")), "cursor"},
		{"topic", func(ctx context.Context) error { return storetest.ErrOf(pub.Count(ctx, "b", "a.")) }, "topic"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			unchanged(t, db, func() { wantInvalid(t, test.call(t.Context()), test.field) })
		})
	}
}

func TestBadConfig(t *testing.T) {
	t.Parallel()
	noCertificate := filepath.Join(t.TempDir(), "ca.pem")
	storetest.Must(t, os.WriteFile(noCertificate, []byte("no certificate"), 0o600))
	tests := []struct {
		name   string
		config notify.Config
		field  string
	}{
		{"prefix with a space", notify.Config{Prefix: "bell hop"}, "prefix"},
		{"prefix with braces", notify.Config{Prefix: "{bellhop}"}, "prefix"},
		{"prefix with a star", notify.Config{Prefix: "bell*"}, "prefix"},
		{"prefix with a newline", notify.Config{Prefix: "bellhop\n"}, "prefix"},
		{"too long a prefix", notify.Config{Prefix: strings.Repeat("p", 65)}, "prefix"},
		{"another scheme", notify.Config{URL: "http://127.0.0.1"}, "redis URL"},
		{"no scheme", notify.Config{URL: "localhost:6379"}, "redis URL localhost:6379: it has no scheme; write redis://localhost:6379"},
		{"no scheme of IPv6", notify.Config{URL: "[::1]:6379/1"}, "redis URL [::1]:6379/1: it has no scheme; write redis://[::1]:6379/1"},
		{"no scheme of the second", notify.Config{URL: "redis://a,b"}, "redis URL b: it has no scheme; write redis://b"},
		{"too large a port", notify.Config{URL: "redis://u:p@127.0.0.1:65536"}, "redis URL redis://u:xxxxx@127.0.0.1:65536: its port is 65536; use 1 to 65535"},
		{"port 0", notify.Config{URL: "rediss://[::1]:0"}, "redis URL rediss://[::1]:0: its port is 0; use 1 to 65535"},
		{"unknown option", notify.Config{URL: "redis://127.0.0.1?tiemout=3s"}, "redis URL"},
		{"no database", notify.Config{URL: "redis://127.0.0.1/first"}, "redis URL"},
		{"one of several", notify.Config{URL: "redis://127.0.0.1,http://127.0.0.1"}, "redis URL"},
		{"own dialer beside sentinels", notify.Config{Master: "m", Dial: new(net.Dialer).DialContext}, "dial: it leads to one Redis, and the sentinels of a master name others; leave one of the two out"},
		{"own dialer beside a Cluster", notify.Config{URL: "redis://a,redis://b", Dial: new(net.Dialer).DialContext}, "dial: it leads to one Redis, and the servers of a Cluster name others; leave it out, or give one URL"},
		{"CA file without TLS", notify.Config{CAFile: noCertificate}, "redis CA file"},
		{"CA file without a certificate", notify.Config{URL: "rediss://127.0.0.1", CAFile: noCertificate}, "redis CA file"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			db, err := notify.Open(test.config)
			if err == nil {
				db.Close()
			}
			wantInvalid(t, err, test.field)
		})
	}
	for _, c := range []notify.Config{{PasswordFile: "/no-such-file"}, {URL: "rediss://127.0.0.1", CAFile: "/no-such-file"}} {
		if _, err := notify.Open(c); err == nil || !strings.Contains(err.Error(), "/no-such-file") {
			t.Errorf("%+v: %v; want an error that names the file", c, err)
		}
	}
}

// However a URL is misspelled, its password is not shown.
func TestPasswordIsNeverShown(t *testing.T) {
	t.Parallel()
	const secret = "hunter"
	urls := []string{
		"redis://user:hunter@127.0.0.1:1", "redis://:hunter@127.0.0.1:1", "rediss://user:hunter@127.0.0.1:1/0",
		"redis://user:hunter@127.0.0.1:1,redis://user:hunter@127.0.0.1:2",
		"http://user:hunter@127.0.0.1", "user:hunter@127.0.0.1:6379", ":hunter@127.0.0.1:6379", "redis:hunter@127.0.0.1",
		"redis:/user:hunter@127.0.0.1", "redis://user:12/hunter@127.0.0.1", "redis://user:12#hunter@127.0.0.1",
		"redis://user:12?hunter@127.0.0.1", "redis://user:hunter%zz@127.0.0.1", "redis://user:hunter /@127.0.0.1",
		"redis://user:a@b/hunter@127.0.0.1", "redis://127.0.0.1?password=hunter", "redis://127.0.0.1/0?password=hunter",
		"unix://user:hunter@/tmp/none.sock", "unix://user:hunter@/tmp/none.sock?database=1", "redis://user:12,hunter,:6379@127.0.0.1", "redis://user:hunter@127.0.0.1:65536", "redis://user:hunter@127.0.0.1:port",
	}
	for _, url := range urls {
		db, err := notify.Open(notify.Config{URL: url})
		if err == nil {
			if strings.Contains(db.Address(), secret) {
				t.Errorf("%s is at %s", url, db.Address())
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err = db.Check(ctx)
			cancel()
			db.Close()
		}
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error shows the password, or there is none: %v", url, err)
		}
	}
}

func TestBadNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "Ready", "ready ", "gone", "State(2)", strings.Repeat("\x00", 1<<20)} {
		_, err := record.ParseState(name)
		wantInvalid(t, err, "state")
		var s notify.State
		wantInvalid(t, s.UnmarshalText([]byte(name)), "state")
	}
	for _, state := range states {
		text, err := state.MarshalText()
		var again notify.State
		if err != nil || again.UnmarshalText(text) != nil || again != state {
			t.Errorf("%v becomes %s and %v", state, text, again)
		}
	}
	storetest.Is(t, "an unknown state is", notify.State(9).String(), "State(9)")
}

func TestBadLine(t *testing.T) {
	t.Parallel()
	tests := []struct {
		line  string
		field string
	}{
		{``, "line"},
		{`{`, "line"},
		{`[]`, "line"},
		{`"text"`, "line"},
		{`{"topic":"a"} {"topic":"b"}`, "line"},
		{`{"topic":"a"}}`, "line"},
		{"{\"topic\":\"a\",\"body\":\"M\xfcller\"}", "line"},
		{`{"topic":"a","dealy":"3s"}`, "line"},
		{`{"topic":3}`, "line"},
		{`{"topic":"a","due":"tomorrow"}`, "due"},
		{`{"topic":"a","body_base64":"!"}`, "line"},
		{`{"topic":"a","mode":"all"}`, "mode"},
		{`{"topic":"a"}`, "body"},
		{`{"topic":"a","body":null}`, "body"},
		{`{"topic":"a","body":"","body_base64":""}`, "body and body_base64"},
		{`{"topic":"a","body":"x","body":"y"}`, "line"},
		{`{"topic":"a","body":"x","Topic":"b"}`, "line"},
		{`{"topic":"a","body":"x","headers":{"To":"1","To":"2"}}`, "line"},
		{`{"topic":"a","body":"\ud83d"}`, "line"},
		{`{"topic":"a","attempts":` + strings.Repeat("9", 1<<20) + `,"body":"x"}`, "attempts"},
		{`{"topic":"a","due":"2099-01-01T00:00:00.` + strings.Repeat("9", 1<<20) + `x","body":"x"}`, "due"},
		{`{"topic":"a","body":"x","body_base64":"eA=="}`, "body and body_base64"},
		{`{"topic":"a","delay":"3s","due":"2099-01-01T00:00:00Z"}`, "delay and due"},
		{`{"topic":"a","due":"0001-01-01T00:00:00Z","body":"x"}`, "due"},
		{`{"topic":"a","delay":"3"}`, "delay"},
		{`{"topic":"a","delay":"soon"}`, "delay"},
		{`{"topic":"a","delay":"9999999h"}`, "delay"},
		{`{"topic":"a","ttl":"1w"}`, "ttl"},
		{`{"topic":"a","delay":"x","ttl":"y"}`, "ttl"},
	}
	for _, test := range tests {
		_, err := notify.ParseLine([]byte(test.line))
		wantInvalid(t, err, test.field)
	}
}

func TestBadMember(t *testing.T) {
	t.Parallel()
	for _, member := range []string{"", ":", "topic", "topic:", ":id", "a b:id", "topic:a b", strings.Repeat("t", 129) + ":id"} {
		if topic, id, err := record.SplitMember(member); !errors.Is(err, notify.ErrInvalid) {
			t.Errorf("%q is %q and %q, %v; want ErrInvalid", member, topic, id, err)
		}
	}
	for _, parts := range [][2]string{{"topic", "id"}, {"a.b", "1:2:3"}, {"-", ":"}} {
		topic, id, err := record.SplitMember(record.Member(parts[0], parts[1]))
		if err != nil || topic != parts[0] || id != parts[1] {
			t.Errorf("%q became %q, %q, %v", parts, topic, id, err)
		}
	}
}

// One bad message of many does not hold up the others.
func TestBadAmongGood(t *testing.T) {
	t.Parallel()
	pub, _ := open(t)
	var messages []notify.Message
	want := map[string]bool{}
	for i := range 20 {
		m := message(fmt.Sprint(i), future)
		if i%5 == 0 {
			m.MaxAttempts = -1
		} else {
			want[m.ID] = true
		}
		messages = append(messages, m)
	}
	got := map[string]bool{}
	for _, r := range pub.PublishMany(t.Context(), messages) {
		if r.Err == nil {
			got[r.ID] = true
		}
	}
	if !maps.Equal(want, got) {
		t.Errorf("published %v, want %v", got, want)
	}
	wantCounts(t, pub, notify.Counts{Scheduled: 16, Published: 16})
}
