package httpapi_test

import (
	"encoding/json"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A wrongCase is a request of an operation with one fault in one parameter.
type wrongCase struct {
	what   string
	op     specOp
	param  specParam
	raw    []string // its values as written in the address after NAME=; nil: none
	status int      // 0: 422
}

// A parameter that is not as the document says is refused with a problem that names it,
// and nothing is changed.
func TestEveryParameterWrong(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	storetest.Publish(t, s.store,
		notify.Message{Topic: "orders", ID: "there", Delay: time.Hour, Body: []byte("x")},
		notify.Message{Topic: "orders", ID: "order-4711", Body: []byte("x")})
	same := s.unchanged()
	tried := 0
	for _, op := range s.spec.ops {
		for _, p := range op.Parameters {
			for _, c := range wrong(op, p) {
				tried++
				s.refuses(c)
			}
		}
		unknown := specParam{Name: "no_such", In: "query"}
		s.refuses(wrongCase{what: "unknown", op: op, param: unknown, raw: []string{"1"}})
		s.refuses(wrongCase{what: "unknown, not UTF-8", op: op, param: specParam{Name: "\xff", In: "query"}, raw: []string{"1"}})
	}
	if tried < 500 {
		t.Errorf("only %d faults were tried", tried)
	}
	same()
}

// wrong returns all ways in which a parameter can be wrong.
func wrong(op specOp, p specParam) (all []wrongCase) {
	add := func(what string, raw ...string) { all = append(all, wrongCase{what: what, op: op, param: p, raw: raw}) }
	if p.In == "path" {
		all = append(all, wrongCase{what: "empty", op: op, param: p, raw: []string{""}, status: 404}, wrongCase{what: "dots", op: op, param: p, raw: []string{".."}, status: 404})
		add("a slash", "a%2Fb")
	}
	if p.In == "query" {
		add("empty", "")
		add("twice", url.PathEscape(example(p)), url.PathEscape(example(p)))
		add("not percent-encoded", "%zz")
		add("not UTF-8", "%ff")
	}
	if p.In == "header" {
		add("twice", url.PathEscape(example(p)), url.PathEscape(example(p)))
	}
	if p.Required && p.In != "path" {
		add("missing")
	}
	if p.Schema.Without != "" {
		add("beside " + p.Schema.Without)
	}
	for what, value := range wrongValues(p) {
		add(what, url.PathEscape(value))
	}
	return all
}

// wrongValues returns values that the schema of a parameter refuses.
func wrongValues(p specParam) map[string]string {
	values := map[string]string{}
	switch schema := p.Schema; {
	case schema.Type == "integer":
		for _, text := range []string{"-1", "0", "9223372036854775808", "1.5", "1e3", "x", "0x10", " 1", "1 ", "true", "１", "\x00"} {
			values[text] = text
		}
		if schema.Maximum != nil {
			most, _ := schema.Maximum.Int64()
			values["more than the most"] = strconv.FormatInt(most+1, 10)
		}
	case schema.Type == "boolean":
		for _, text := range []string{"1", "0", "TRUE", "yes", " true", "\x00"} {
			values[text] = text
		}
	case schema.Shortest != "":
		for _, text := range []string{"1", "x", "-1s", "1w", "1s ", "9999999h", "1e3s", "NaN", "PT1H", "\x00", strings.Repeat("9", 300) + "s"} {
			values[text] = text
		}
		values["shorter"] = (parse(schema.Shortest) - 1).String()
		if schema.Longest != "" {
			values["longer"] = (parse(schema.Longest) + 1).String()
			values["longest of all"] = time.Duration(math.MaxInt64).String()
		}
	case schema.Format == "date-time":
		for _, text := range []string{"1", "now", "2030-01-02", "2030-13-02T15:04:05Z", "2030-01-02T15:04:05", "1969-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "10000-01-01T00:00:00Z", "9999-12-31T23:59:59-01:00", "2030-01-02T15:04:05,5Z", "2030-01-02T1:04:05Z", "\x00", strings.Repeat("2", 5000)} {
			values[text] = text
		}
	case len(schema.Enum) > 0:
		for _, text := range []string{"x", strings.ToUpper(schema.Enum[0]), schema.Enum[0] + " ", schema.Enum[0] + "," + schema.Enum[0], "\x00"} {
			values[text] = text
		}
	case p.In == "header":
		if schema.MaxLength > 0 {
			values["too long"] = strings.Repeat("1", schema.MaxLength+1)
		}
		values["not UTF-8"] = "a\xff"
	default:
		if schema.MaxLength > 0 {
			values["too long"] = strings.Repeat("1", schema.MaxLength+1)
			values["too long of deaths"] = ofLength(p, schema.MaxLength+1)
		}
		if schema.Pattern != "" {
			for _, text := range []string{"a\x00", "a\n", "\x7f", "a b", "ü", "a..b", "€", "..a", "a/b", "{}", "a\r\nb"} {
				values[text] = text
			}
		}
	}
	for what, value := range values {
		if fits(p, value) {
			delete(values, what)
		}
	}
	return values
}

// fits reports whether the document permits a value after all: 0 if the minimum is 0, an id with dots.
func fits(p specParam, value string) bool {
	n, err := strconv.ParseInt(value, 10, 64)
	switch {
	case p.Schema.Type == "integer" && err == nil:
		least, _ := p.Schema.Minimum.Int64()
		return n >= least && (p.Schema.Maximum == nil || p.Schema.Maximum.String() == "" || n <= most(p))
	case p.Schema.Shortest != "" && p.Schema.Longest == "":
		d, err := time.ParseDuration(value)
		return err == nil && d >= parse(p.Schema.Shortest)
	}
	if p.Schema.Pattern == "" || p.Schema.Type != "string" || p.Schema.Shortest != "" {
		return false
	}
	return pattern(p).MatchString(value) && (p.Schema.MaxLength == 0 || len(value) <= p.Schema.MaxLength)
}

func most(p specParam) int64 {
	n, _ := p.Schema.Maximum.Int64()
	return n
}

var patterns sync.Map

// pattern returns the grammar of a parameter.
func pattern(p specParam) *regexp.Regexp {
	if known, ok := patterns.Load(p.Schema.Pattern); ok {
		return known.(*regexp.Regexp)
	}
	compiled := regexp.MustCompile(p.Schema.Pattern)
	patterns.Store(p.Schema.Pattern, compiled)
	return compiled
}

func parse(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(err)
	}
	return d
}

// example returns a valid value of a parameter.
func example(p specParam) string {
	switch s := p.Schema; {
	case len(s.Examples) > 0:
		switch v := s.Examples[0].(type) {
		case string:
			return v
		default:
			text, _ := json.Marshal(v)
			return strings.TrimSuffix(string(text), ".0")
		}
	case len(s.Enum) > 0:
		return s.Enum[0]
	case s.Minimum != nil:
		return s.Minimum.String()
	case s.Type == "boolean":
		return "false"
	case s.Shortest != "":
		return s.Shortest
	}
	return "x"
}

// companions returns the parameters without which that of a case is refused.
func (c wrongCase) companions() []string {
	switch c.op.OperationID {
	case "nextOfSchedule":
		return nil
	case "purgeRefused":
		return map[string][]string{"waiting": {"before=1h"}, "before": {"waiting=true"}}[c.param.Name]
	}
	return map[string][]string{
		"if_busy": {"key=acct-7"}, "late": {"late_after=1m"}, "if_exists": {"id=order-4712", "delay=1m"}, "max_wait": {"id=order-4713", "if_exists=debounce", "delay=1ms"},
		"on_dead": {"after_group=order.timeout:g"}, "then": {"id=order-4714"}, "unique_for": {"id=order-4715"}, "zone": {"due=2030-01-02T08:00"},
	}[c.param.Name]
}

// address returns the path, query and headers of a request with a case's fault.
func (c wrongCase) address() (path, query string, header http.Header) {
	path, header = c.op.path, http.Header{}
	pairs := c.companions()
	for _, p := range c.op.Parameters {
		value := url.PathEscape(example(p))
		mine := p.Name == c.param.Name && p.In == c.param.In
		switch {
		case p.In == "path" && mine:
			path = strings.ReplaceAll(path, "{"+p.Name+"}", c.raw[0])
		case p.In == "path":
			path = strings.ReplaceAll(path, "{"+p.Name+"}", value)
		case p.Required && !mine:
			pairs = append(pairs, p.Name+"="+value)
		case mine && c.param.Schema.Without != "" && len(c.raw) == 0:
			pairs = append(pairs, p.Name+"="+value)
		case p.Name == "all" && !mine && !slices.Contains([]string{"id", "ids", "waiting", "before"}, c.param.Name):
			pairs = append(pairs, "all=true") // calls about dead letters need it or an id, and those about refused rows ids, or what waits
		case p.Name == c.param.Schema.Without && len(c.raw) == 0 && p.In == "query":
			pairs = append(pairs, p.Name+"="+value)
		}
	}
	if strings.HasSuffix(path, "/find/reschedule") && c.param.Name != "delay" && c.param.Name != "due" {
		pairs = append(pairs, "delay=1m")
	}
	if strings.HasSuffix(path, "/extend") && c.param.Name == "note" {
		pairs = append(pairs, "progress=40")
	}
	for _, raw := range c.raw {
		switch c.param.In {
		case "query":
			pairs = append(pairs, url.QueryEscape(c.param.Name)+"="+raw)
		case "header":
			text, _ := url.PathUnescape(raw)
			header.Add(c.param.Name, text)
		}
	}
	return path, strings.Join(pairs, "&"), header
}

// refuses checks that the request of a case is refused.
func (s *server) refuses(c wrongCase) {
	s.t.Helper()
	path, query, header := c.address()
	var body string
	if c.op.RequestBody != nil {
		body = "x"
	}
	var headers []string
	for name, values := range header {
		for _, v := range values {
			headers = append(headers, name+": "+v)
		}
	}
	a := s.call(c.op.method, path+"?"+query, body, headers...)
	want := c.status
	if want == 0 {
		want = 422
	}
	if a.status != want {
		s.t.Errorf("%s: %s %.60q answers %d, want %d: %.300s %.600s", c.op.OperationID, c.param.Name, c.what, a.status, want, a.call, a.body)
		return
	}
	name := strings.ToValidUTF8(c.param.Name, "�")
	if p := a.problem(); want == 422 && !slices.Contains(names(p), name) {
		s.t.Errorf("%s: %s %q: the problem names %q: %s", c.op.OperationID, c.param.Name, c.what, names(p), p.Detail)
	}
}

// Values at the limits of the document are accepted.
func TestEveryLimitIsRight(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	tried := 0
	for _, op := range s.spec.ops {
		if op.OperationID == "listen" {
			continue
		}
		for _, p := range op.Parameters {
			for _, value := range limits(p) {
				tried++
				path, query, _ := wrongCase{op: op, param: p, raw: []string{url.PathEscape(value)}}.address()
				a := s.call(op.method, path+"?"+query, bodyOf(op))
				if storetest.Shards() > 1 && op.OperationID == "claimAny" && value == "oldest" { // the topics of the example are in several shards
					a.is(422).says("no common order")
				} else if a.status == 400 || a.status == 422 || a.status >= 500 {
					t.Errorf("%s with %s=%.60s answers %d: %s", op.OperationID, p.Name, value, a.status, a.body)
				}
			}
		}
	}
	if tried < 40 {
		t.Errorf("only %d limits were tried", tried)
	}
}

// limits returns valid values of a parameter at its limits.
func limits(p specParam) (all []string) {
	if p.In == "header" {
		return nil
	}
	if p.In == "query" && p.Name != "wait" && p.Name != "cursor" {
		all = append(all, example(p))
	}
	if p.Schema.Minimum != nil {
		all = append(all, p.Schema.Minimum.String())
	}
	if p.Schema.Maximum != nil {
		all = append(all, p.Schema.Maximum.String())
	}
	if p.Schema.Shortest != "" {
		all = append(all, p.Schema.Shortest)
	}
	if p.Schema.Longest != "" && p.Name != "wait" {
		all = append(all, p.Schema.Longest)
	}
	if n := p.Schema.MaxLength; n > 0 && p.Name != "cursor" && p.Name != "since" && p.Name != "q" && p.Name != "cron" && p.Name != "database" {
		all = append(all, ofLength(p, n))
	}
	return append(all, p.Schema.Enum...)
}

// ofLength returns a value of so many bytes: the topic of deaths where there may be one, which is longer than others by its prefix, and topic
// and name of a group.
func ofLength(p specParam, bytes int) string {
	prefix := ""
	if p.Name == "after_group" {
		prefix = strings.Repeat("1", record.MaxTopic) + ":"
	}
	if strings.Contains(p.Schema.Pattern, `\$dead`) {
		prefix = record.DeadPrefix
	}
	return prefix + strings.Repeat("1", bytes-len(prefix))
}

// An answer is not many times as long as its request.
func TestManyFaultsAreNotAllTold(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	a := s.call("GET", "/v1/carrier?"+strings.Repeat("a&", 7_000)+"a", "").is(422)
	if len(a.body) > 10_000 {
		t.Errorf("the answer has %d bytes", len(a.body))
	}
	a.says("faults more")
}

// A day is a unit of every duration, and the document says so.
func TestDays(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	p := read[api.Publication](s.call("POST", "/v1/topics/orders/messages?delay=1d12h&ttl=.5d", "x").is(http.StatusCreated))
	if time.Until(p.Due).Round(time.Hour) != 36*time.Hour {
		t.Errorf("got %+v", p)
	}
	s.call("POST", "/v1/topics/orders/messages?delay=9999999h", "x").is(http.StatusUnprocessableEntity).says("it is too long; the longest duration is 106751d")
	for _, op := range s.spec.ops {
		for _, p := range op.Parameters {
			for text, want := range map[string]bool{"0": true, "1d": true, ".5d1h1.5m": true, "90s": true, "1h1d": false, "1dd": false, "d": false, "": false} {
				if p.Schema.Shortest != "" && pattern(p).MatchString(text) != want {
					t.Errorf("%s of %s: by its grammar %q is a duration: %v, want %v", p.Name, op.OperationID, text, !want, want)
				}
			}
		}
	}
}
