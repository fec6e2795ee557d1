package outbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx

	"github.com/bellhopd/bellhop/daemon/database"
	"github.com/bellhopd/bellhop/daemon/database/databasetest"
	"github.com/bellhopd/bellhop/daemon/outbox"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/fields"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// publish publishes a message by its statement of SQL.
func publish(t testing.TB, conn *pgx.Conn, m notify.Message) (id string) {
	t.Helper()
	query, args, err := notify.SQL(m)
	storetest.Must(t, err)
	if err := conn.QueryRow(t.Context(), query, args...).Scan(&id); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return id
}

// asking are messages that ask for each thing that one may ask for.
func asking() []notify.Message {
	due := time.Date(2030, 1, 2, 15, 4, 5, 678_901_000, time.UTC)
	return []notify.Message{
		{},
		{ID: "o-1", Body: []byte("\x00\xff'\\")},
		{Key: "acct-7", IfBusy: "drop"},
		{Delay: 30*time.Minute + time.Microsecond, Spread: 10 * time.Minute},
		{Delay: math.MaxInt64 / 1000 * 1000},
		{Due: due, TTL: 24 * time.Hour},
		{Due: time.UnixMilli(1).UTC()},
		{Due: record.MaxDue, MaxAttempts: 1_000_000, Lease: 24 * time.Hour, TryTimeout: 100 * time.Millisecond},
		{Fail: notify.FailDrop, LateAfter: time.Minute, Late: notify.LateDrop},
		{ID: "o-1", IfExists: notify.Debounce, Delay: time.Minute, MaxWait: time.Hour, UniqueFor: 168 * time.Hour},
		{ID: strings.Repeat("x", 128), IfExists: notify.Replace, Then: notify.After},
		{ID: "o-1", IfExists: notify.Refuse},
		{Group: "import-7"},
		{Group: "all", AfterGroup: "row.import:import-7", OnDead: "go"},
		{ContentType: "text/plain; charset=\"ü\"", Headers: map[string]string{"A": "日本 '\"\\", "b!#$%&'*+.^_`|~-": ""}},
		{Broadcast: true, ID: "b-1", TTL: time.Minute, IfExists: notify.Keep, Headers: map[string]string{"A": "b"}},
	}
}

// A row is read as the message that was published, with all that it asked for.
func TestRows(t *testing.T) {
	t.Parallel()
	url := installed(t)
	conn := connect(t, url)
	left := make(map[string]bool)
	for _, f := range fields.In[notify.Message]() {
		left[f.Name] = f.Name != "zone"
	}
	for _, m := range asking() {
		m.Topic = "order.timeout"
		id := publish(t, conn, m)
		if m.ID == "" {
			m.ID = id
		}
		if diff := cmp.Diff(m, last(t, url), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", m, diff)
		}
		for _, f := range fields.In[notify.Message]() {
			if !reflect.ValueOf(m).FieldByIndex(f.Index).IsZero() {
				delete(left, f.Name)
			}
		}
	}
	delete(left, "zone")
	if len(left) > 0 {
		t.Errorf("no message has %v", left)
	}
	if asked := databasetest.Ask(t, url, "SELECT asked FROM bellhop.outbox ORDER BY seq LIMIT 1"); asked[0] != nil {
		t.Errorf("nothing was asked for, and it is %v", asked)
	}
}

// The statement of a message is the same to any driver, however that sends arguments.
func TestDrivers(t *testing.T) {
	t.Parallel()
	url := installed(t)
	m := notify.Message{
		Topic: "order.timeout", ID: "o-1", Body: []byte("\x00'\\"), Delay: 90 * time.Second, MaxAttempts: 5, Fail: notify.FailDrop, Headers: map[string]string{"A": "'\\"}, ContentType: "text/plain",
	}
	query, args, err := notify.SQL(m)
	storetest.Must(t, err)
	for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		db, err := sql.Open("pgx", url+"?default_query_exec_mode="+mode)
		storetest.Must(t, err)
		if _, err := db.ExecContext(t.Context(), query, args...); err != nil {
			t.Errorf("%s: %v", mode, err)
		}
		storetest.Should(t, db.Close())
		if diff := cmp.Diff(m, last(t, url)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", mode, diff)
		}
		databasetest.Exec(t, url, "DELETE FROM bellhop.outbox")
		publish(t, connect(t, url+"?default_query_exec_mode="+mode), m)
		if diff := cmp.Diff(m, last(t, url)); diff != "" {
			t.Errorf("pgx, %s (-want +got):\n%s", mode, diff)
		}
	}
}

// The function is called by any type of body, by a query, and with what counts as missing.
func TestCalls(t *testing.T) {
	t.Parallel()
	url := installed(t)
	made := cmpopts.IgnoreFields(notify.Message{}, "ID")
	for call, want := range map[string]notify.Message{
		`SELECT bellhop.publish('orders')`: {},
		`SELECT bellhop.publish('orders', '{"total":12}', id => 'order-4711', delay => '1h30m', key => 'acct-7')`:                             {Body: []byte(`{"total":12}`), Delay: 90 * time.Minute, Key: "acct-7"},
		`SELECT bellhop.publish('orders', '\x00ff'::bytea)`:                                                                                   {Body: []byte("\x00\xff")},
		`SELECT bellhop.publish('orders', '{"a": 1}'::jsonb, delay => '500ms')`:                                                               {Body: []byte(`{"a": 1}`), ContentType: "application/json", Delay: 500 * time.Millisecond},
		`SELECT bellhop.publish('orders', '1'::jsonb, content_type => 'text/plain')`:                                                          {Body: []byte("1"), ContentType: "text/plain"},
		`SELECT bellhop.publish('orders', v, "then" => 'after', id => 'x') FROM (VALUES ('ü'::varchar)) AS x (v)`:                             {Body: []byte("ü"), Then: notify.After},
		`SELECT bellhop.publish('orders', key => '', delay => '0', attempts => 0, headers => '{}', broadcast => NULL, due => NULL, id => '')`: {},
		`SELECT bellhop.publish('orders', headers => 'null', due => '2030-01-02 16:04:05.678+01')`:                                            {Due: time.Date(2030, 1, 2, 15, 4, 5, 678e6, time.UTC)},
		`SELECT bellhop.publish('orders', headers => '{"A": null}', ttl => '1 day 2 hours', broadcast => true)`:                               {Headers: map[string]string{"A": ""}, TTL: 26 * time.Hour, Broadcast: true},
	} {
		databasetest.Ask(t, url, call)
		want.Topic = "orders"
		if diff := cmp.Diff(want, last(t, url), cmpopts.EquateEmpty(), made); diff != "" {
			t.Errorf("%s (-want +got):\n%s", call, diff)
		}
	}
}

// shown are values in a sentence, which SQL writes otherwise than Go: durations, times and quotes.
var shown = regexp.MustCompile(`(delay|ttl|lease|late_after|max_wait|unique_for|spread|due) ('[^']*'|[^ ]+?)(: |$)|the delay, .*`)

// said returns what is said about faults, without how values are written, a line each.
func said(text string) string {
	text = shown.ReplaceAllString(strings.NewReplacer("bellhop: ", "", "invalid ", "").Replace(text), "$1 X$3")
	return text
}

// What is wrong with a call is said as Go says it, all at once.
func TestFaults(t *testing.T) {
	t.Parallel()
	url := installed(t)
	conn := connect(t, url)
	long := strings.Repeat("x", 129)
	for args, m := range map[string]notify.Message{
		`'order timeout'`:                 {Topic: "order timeout"},
		`''`:                              {},
		`NULL`:                            {},
		`'$dead.x'`:                       {Topic: "$dead.x"},
		`'a..b'`:                          {Topic: "a..b"},
		`'ü"'`:                            {Topic: "ü\""},
		`repeat('x', 129)`:                {Topic: long},
		`E'a\n'`:                          {Topic: "a\n"},
		`'t', id => 'a b'`:                {Topic: "t", ID: "a b"},
		`'t', id => '..'`:                 {Topic: "t", ID: ".."},
		`'t', id => E'a\n'`:               {Topic: "t", ID: "a\n"},
		`'t', id => repeat('x', 129)`:     {Topic: "t", ID: long},
		`'t', key => '~a'`:                {Topic: "t", Key: "~a"},
		`'t', key => repeat('x', 129)`:    {Topic: "t", Key: long},
		`'t', if_busy => 'drop'`:          {Topic: "t", IfBusy: "drop"},
		`'t', if_busy => 'x', key => 'a'`: {Topic: "t", IfBusy: "x", Key: "a"},
		`'t', "group" => 'a b'`:           {Topic: "t", Group: "a b"},
		`'t', after_group => 'g'`:         {Topic: "t", AfterGroup: "g"},
		`'t', after_group => 't:~g'`:      {Topic: "t", AfterGroup: "t:~g"},
		`'t', on_dead => 'go'`:            {Topic: "t", OnDead: "go"},
		`'t', after_group => 't:g', on_dead => 'bury'`:                                  {Topic: "t", AfterGroup: "t:g", OnDead: "bury"},
		`'t', after_group => 't:g', delay => '1s'`:                                      {Topic: "t", AfterGroup: "t:g", Delay: time.Second},
		`'t', after_group => 't:g', id => 'x', if_exists => 'debounce'`:                 {Topic: "t", AfterGroup: "t:g", ID: "x", IfExists: "debounce"},
		`'t', "group" => 'g', id => 'x', "then" => 'after'`:                             {Topic: "t", Group: "g", ID: "x", Then: "after"},
		`'t', "group" => 'g', after_group => 't:g', on_dead => 'go', broadcast => true`: {Topic: "t", Group: "g", AfterGroup: "t:g", OnDead: "go", Broadcast: true},
		`'t', delay => '-1s'`:                               {Topic: "t", Delay: -time.Second},
		`'t', delay => '1s', due => '2030-01-01 00:00:00Z'`: {Topic: "t", Delay: time.Second, Due: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)},
		`'t', due => '1969-12-31 23:00:00Z'`:                {Topic: "t", Due: time.Date(1969, 12, 31, 23, 0, 0, 0, time.UTC)},
		`'t', due => 'infinity'`:                            {Topic: "t", Due: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)},
		`'t', due => '-infinity'`:                           {Topic: "t", Due: time.Date(1, 1, 1, 1, 0, 0, 0, time.UTC)},
		`'t', spread => '25h'`:                              {Topic: "t", Spread: 25 * time.Hour},
		`'t', ttl => '1us'`:                                 {Topic: "t", TTL: time.Microsecond},
		`'t', attempts => -1`:                               {Topic: "t", MaxAttempts: -1},
		`'t', attempts => 1000001`:                          {Topic: "t", MaxAttempts: 1000001},
		`'t', lease => '99ms', try_timeout => '24h'`:        {Topic: "t", Lease: 99 * time.Millisecond, TryTimeout: 24 * time.Hour},
		`'t', fail => 'BURY'`:                               {Topic: "t", Fail: "BURY"},
		`'t', late => 'drop'`:                               {Topic: "t", Late: "drop"},
		`'t', late => 'x', late_after => '1ms'`:             {Topic: "t", Late: "x", LateAfter: time.Millisecond},
		`'t', if_exists => 'keep'`:                          {Topic: "t", IfExists: "keep"},
		`'t', if_exists => 'x'`:                             {Topic: "t", IfExists: "x"},
		`'t', id => 'x', if_exists => 'debounce'`:           {Topic: "t", ID: "x", IfExists: "debounce"},
		`'t', id => 'x', if_exists => 'debounce', delay => '2m', max_wait => '1m'`: {Topic: "t", ID: "x", IfExists: "debounce", Delay: 2 * time.Minute, MaxWait: time.Minute},
		`'t', max_wait => '1m'`:                    {Topic: "t", MaxWait: time.Minute},
		`'t', unique_for => '1h'`:                  {Topic: "t", UniqueFor: time.Hour},
		`'t', "then" => 'after'`:                   {Topic: "t", Then: "after"},
		`'t', id => 'x', "then" => 'before'`:       {Topic: "t", ID: "x", Then: "before"},
		`'t', content_type => E'a\n'`:              {Topic: "t", ContentType: "a\n"},
		`'t', content_type => repeat('ü', 128)`:    {Topic: "t", ContentType: strings.Repeat("ü", 128)},
		`'t', headers => '{"a b": "c"}'`:           {Topic: "t", Headers: map[string]string{"a b": "c"}},
		`'t', headers => '{"": "c"}'`:              {Topic: "t", Headers: map[string]string{"": "c"}},
		`'t', headers => '{"a": "\t"}'`:            {Topic: "t", Headers: map[string]string{"a": "\t"}},
		`'t', headers => '{"Ab": "1", "aB": "2"}'`: {Topic: "t", Headers: map[string]string{"Ab": "1", "aB": "2"}},
		`'t', headers => (SELECT jsonb_object_agg(n::text, '') FROM generate_series(1, 65) n)`: {Topic: "t", Headers: many(65)},
		`'t', headers => jsonb_build_object('a', repeat('ü', 4096))`:                           {Topic: "t", Headers: map[string]string{"a": strings.Repeat("ü", 4096)}},
		`'t', broadcast => true, key => 'a', attempts => 5, lease => '1s', fail => 'x', if_busy => 'wait', late => 'drop', "then" => 'after', late_after => '1s', id => 'x', unique_for => '1s'`: {
			Topic: "t", Broadcast: true, Key: "a", MaxAttempts: 5, Lease: time.Second, Fail: "x", IfBusy: "wait", Late: "drop", Then: "after", LateAfter: time.Second, ID: "x", UniqueFor: time.Second,
		},
		`'a b', id => 'c d', key => '~', delay => '-1s', ttl => '1us', headers => '{"": ""}', max_wait => '1s', if_busy => 'y'`: {
			Topic: "a b", ID: "c d", Key: "~", Delay: -time.Second, TTL: time.Microsecond, Headers: map[string]string{"": ""}, MaxWait: time.Second, IfBusy: "y",
		},
	} {
		_, err := conn.Exec(t.Context(), "SELECT bellhop.publish("+args+")")
		pg := new(pgconn.PgError)
		if !errors.As(err, &pg) || pg.Code != "22023" || !strings.HasPrefix(pg.Message, "bellhop: ") {
			t.Errorf("%s: got %v", args, err)
			continue
		}
		if diff := cmp.Diff(said(m.Faults().Error()), said(pg.Message)); diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", args, pg.Message, diff)
		}
	}
	if n := rows(t, url); n != 0 {
		t.Errorf("%d rows are there", n)
	}
}

// Every text of up to two characters of each kind is a topic, an id, a key, a content type, a name and a value of a
// header for SQL exactly if it is one for Go.
func TestNames(t *testing.T) {
	t.Parallel()
	conn := connect(t, installed(t))
	letters := []string{"", "a", "Z", "0", "_", "-", ".", "~", ":", "@", "[", "]", "^", "`", "{", "/", "!", "'", "\\", " ", "\n", "\x7f", "\u0085", "é", "$"}
	for _, first := range letters {
		for _, second := range letters {
			text := first + second
			for _, m := range []notify.Message{
				{Topic: text},
				{Topic: "t", ID: text},
				{Topic: "t", Key: text},
				{Topic: "t", ContentType: text},
				{Topic: "t", Headers: map[string]string{text: ""}},
				{Topic: "t", Headers: map[string]string{"a": text}},
			} {
				_, err := conn.Exec(t.Context(), "SELECT bellhop.publish($1, id => $2::text, key => $3::text, content_type => $4::text, headers => $5::jsonb)", m.Topic, m.ID, m.Key, m.ContentType, m.Headers)
				if want := m.Faults(); (err == nil) != (want == nil) || err != nil && database.Condition(err) != "22023" {
					t.Errorf("%+v: %v, and Go says %v", m, err, want)
				}
			}
		}
	}
}

func many(n int) map[string]string {
	all := make(map[string]string)
	for i := range n {
		all[fmt.Sprint(i)] = ""
	}
	return all
}

// What only SQL can say wrongly is said, too.
func TestFaultsOfSQL(t *testing.T) {
	t.Parallel()
	url := databasetest.Database(t)
	install(t, url, outbox.InstallOptions{MaxBody: 3})
	conn := connect(t, url)
	for args, want := range map[string]string{
		`'t', NULL::text`:                              `body: it is NULL; give '' for an empty one`,
		`'t', 'four'`:                                  `body: 4 bytes; at most 3 are allowed`,
		`'t', 'üü'`:                                    `body: 4 bytes; at most 3 are allowed`,
		`'t', delay => '1 mon'`:                        `delay '1 mon': a month has no length; use days, or due => now() + interval '1 mon'`,
		`'t', ttl => '1 year -1 day'`:                  `ttl '1 year -1 days': a month has no length; use days`,
		`'t', delay => '1 mon -30 days'`:               `delay '1 mon -30 days': a month has no length; use days, or due => now() + interval '1 mon -30 days'`,
		`'t', delay => '106752 days'`:                  `delay '106752 days': it is too long; the longest duration is 106751d`,
		`'t', late_after => '178000000 hours'`:         `late_after '178000000:00:00': it is too long; the longest duration is 106751d`,
		`'t', headers => '[1]'`:                        `headers: it is a JSON array, and should be an object; write one such as {"Tenant": "acme"}`,
		`'t', headers => '{"a": 1}'`:                   `header a: its value is a JSON number, and should be a string`,
		`'t', headers => '{"a": "ok", "b": {"c": 1}}'`: `header b: its value is a JSON object, and should be a string`,
	} {
		_, err := conn.Exec(t.Context(), "SELECT bellhop.publish("+args+")")
		pg := new(pgconn.PgError)
		if !errors.As(err, &pg) || pg.Code != "22023" || pg.Message != "bellhop: "+want {
			t.Errorf("%s: got %v", args, err)
		}
	}
}

// Ids that are made sort by time, in the order of the calls of a session.
func TestMadeIDs(t *testing.T) {
	t.Parallel()
	url := installed(t)
	before := time.Now()
	ids := databasetest.Ask(t, url, "SELECT array_agg(bellhop.publish('t') ORDER BY n) FROM generate_series(1, 2000) n")[0].([]any)
	ordered := databasetest.Ask(t, url, "SELECT array_agg(id ORDER BY seq) FROM bellhop.outbox")[0].([]any)
	if !slices.IsSortedFunc(ordered, func(a, b any) int { return strings.Compare(a.(string), b.(string)) }) {
		t.Errorf("they do not ascend: %v", ordered[:20])
	}
	seen := make(map[any]bool)
	for _, id := range ids {
		at := record.TimeOfID(id.(string))
		if seen[id] || at.Before(before.Add(-time.Second)) || at.After(time.Now().Add(time.Second)) || record.CheckID(id.(string)) != nil {
			t.Fatalf("the id %v is of %v", id, at)
		}
		seen[id] = true
	}
}

// Names of the caller's own, settings of its session and the order of its schemas mean nothing to the function.
func TestHostileSession(t *testing.T) {
	t.Parallel()
	url := installed(t)
	conn := connect(t, url)
	do(t, conn, `CREATE SCHEMA evil`)
	for _, name := range []string{"pg_notify(text, text)", "octet_length(text)", "octet_length(bytea)", "to_json(anyelement)", "left(text, integer)", "convert_to(text, text)", "starts_with(text, text)", "publish(text, bytea)"} {
		do(t, conn, `CREATE FUNCTION evil.`+name+` RETURNS bytea LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'evil'; END $$`)
	}
	do(t, conn, `CREATE TABLE evil.outbox (topic text, id text, asked jsonb, body bytea)`)
	do(t, conn, `CREATE TEMP TABLE outbox (topic text, id text, asked jsonb, body bytea)`)
	for _, setting := range []string{"search_path = evil, pg_temp, pg_catalog", "standard_conforming_strings = off", "DateStyle = 'German, DMY'", "IntervalStyle = iso_8601", "TimeZone = 'America/New_York'", "plpgsql.variable_conflict = error", "transform_null_equals = on"} {
		do(t, conn, "SET "+setting)
	}
	do(t, conn, `SELECT bellhop.publish('orders', 'it''s "x"; DROP TABLE outbox; --', id => 'o-1', delay => '90s', due => NULL, headers => '{"A": "''"}', key => 'k')`)
	want := notify.Message{Topic: "orders", ID: "o-1", Body: []byte(`it's "x"; DROP TABLE outbox; --`), Delay: 90 * time.Second, Key: "k", Headers: map[string]string{"A": "'"}}
	storetest.Same(t, "message", want, last(t, url))
	_, err := conn.Exec(t.Context(), `SELECT bellhop.publish('x''; DROP TABLE bellhop.outbox; --')`)
	if database.Condition(err) != "22023" {
		t.Errorf("got %v", err)
	}
}

// Letters of any case are told apart, whatever the collation of an argument.
func TestCollations(t *testing.T) {
	t.Parallel()
	url := installed(t)
	conn := connect(t, url)
	if _, err := conn.Exec(t.Context(), `CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false)`); err != nil {
		t.Skip("this PostgreSQL has no ICU")
	}
	do(t, conn, `CREATE TABLE t (loose text COLLATE loose, strict text COLLATE "C"); INSERT INTO t VALUES ('KEEP', 'x')`)
	for _, id := range []string{"loose", "strict"} { // with strict the call has no collation
		_, err := conn.Exec(t.Context(), "SELECT bellhop.publish(loose, id => "+id+", if_exists => loose) FROM t")
		if database.Condition(err) != "22023" || !strings.HasPrefix(err.Error(), `ERROR: bellhop: if_exists "KEEP": use refuse, keep, replace, debounce`) {
			t.Errorf("got %v", err)
		}
		do(t, conn, "SELECT bellhop.publish(loose, id => "+id+", key => loose, fail => 'drop', content_type => loose, headers => jsonb_build_object(loose, loose, 'b', '')) FROM t")
	}
}

// A whole statement of calls is one transaction; a savepoint that is rolled back takes its rows along.
func TestTransactions(t *testing.T) {
	t.Parallel()
	url := installed(t)
	conn := connect(t, url)
	do(t, conn, "SELECT bellhop.publish('t', n::text, key => n::text) FROM generate_series(1, 40000) n")
	if n := rows(t, url); n != 40000 {
		t.Fatalf("%d rows", n)
	}
	tx, err := conn.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.Serializable})
	storetest.Must(t, err)
	do(t, tx, "SELECT bellhop.publish('t', id => 'a')")
	do(t, tx, "SAVEPOINT s")
	do(t, tx, "SELECT bellhop.publish('t', id => 'b')")
	do(t, tx, "ROLLBACK TO s")
	_, err = tx.Exec(t.Context(), "SELECT bellhop.publish('a b')")
	if err == nil {
		t.Fatal("a wrong topic was taken")
	}
	do(t, tx, "ROLLBACK TO s")
	do(t, tx, "SELECT bellhop.publish('t', id => 'c')")
	if n := rows(t, url); n != 40000 {
		t.Fatalf("%d rows before the commit", n)
	}
	storetest.Must(t, tx.Commit(t.Context()))
	tx = begin(t, conn)
	do(t, tx, "SELECT bellhop.publish('t', id => 'd')")
	storetest.Must(t, tx.Rollback(t.Context()))
	ids := databasetest.Ask(t, url, "SELECT string_agg(id, ' ' ORDER BY seq) FROM bellhop.outbox WHERE length(id) = 1")
	if ids[0] != "a c" {
		t.Errorf("the rows are %v", ids)
	}
}

// A transaction that publishes behind its update of a row has its place behind all whose updates it waited for.
func TestOrderBehindAnUpdate(t *testing.T) {
	t.Parallel()
	url := installed(t)
	databasetest.Exec(t, url, "CREATE TABLE account (id text, n integer); INSERT INTO account VALUES ('acct-7', 0)")
	const update = "UPDATE account SET n = n + 1 WHERE id = 'acct-7' RETURNING n"
	const call = "SELECT bellhop.publish('t', $1::text, key => 'acct-7')"
	first, second := begin(t, connect(t, url)), begin(t, connect(t, url))
	var n int
	storetest.Must(t, first.QueryRow(t.Context(), update).Scan(&n))
	done := make(chan error, 1)
	go func() {
		var n int
		err := second.QueryRow(context.WithoutCancel(t.Context()), update).Scan(&n)
		if err == nil {
			_, err = second.Exec(context.WithoutCancel(t.Context()), call, fmt.Sprint(n))
		}
		if err == nil {
			err = second.Commit(context.WithoutCancel(t.Context()))
		}
		done <- err
	}()
	waits(t, url)
	do(t, first, call, fmt.Sprint(n))
	storetest.Must(t, first.Commit(t.Context()))
	storetest.Must(t, <-done)
	order := databasetest.Ask(t, url, "SELECT string_agg(convert_from(body, 'UTF8'), ' ' ORDER BY seq), string_agg(convert_from(body, 'UTF8'), ' ' ORDER BY id) FROM bellhop.outbox")
	if order[0] != "1 2" || order[1] != "1 2" {
		t.Errorf("the order is %v", order)
	}
}

// In a database of few letters they are UTF-8 in a row.
func TestOtherEncoding(t *testing.T) {
	t.Parallel()
	server, url := databasetest.Server(t)
	databasetest.Exec(t, url, "CREATE DATABASE latin ENCODING LATIN1 LOCALE 'C' TEMPLATE template0")
	url = server.URL("latin") + "?client_encoding=UTF8"
	install(t, url, outbox.InstallOptions{})
	databasetest.Ask(t, url, `SELECT bellhop.publish('t', 'für', id => 'x', headers => '{"A": "ü"}')`)
	want := notify.Message{Topic: "t", ID: "x", Body: []byte("für"), Headers: map[string]string{"A": "ü"}}
	storetest.Same(t, "message", want, last(t, url))
	_, err := connect(t, url).Exec(t.Context(), `SELECT bellhop.publish('t', headers => jsonb_build_object('a', repeat('ü', 4096)))`)
	if err == nil || !strings.Contains(err.Error(), "8193 bytes in all") {
		t.Errorf("got %v", err)
	}
}
