package httpapi_test

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// curls are all calls of the API, as a person would type them one after the other, with
// their output: times and receipts are normalized, and later calls may use a receipt.
var curls = []struct{ command, prints string }{
	{
		`curl -d 'EUR 10' 'localhost:8420/v1/topics/order.timeout/messages?id=4711&delay=30m'`,
		`{"topic":"order.timeout","id":"4711","due":"TIME","state":"scheduled","outcome":"created"}`,
	},
	{
		`curl localhost:8420/v1/topics/order.timeout/messages/4711`,
		`{"topic":"order.timeout","id":"4711","state":"scheduled","due":"TIME","first_due":"TIME","attempts_used":0,"published":"TIME","body":"EUR 10"}`,
	},
	{
		`curl -X PATCH 'localhost:8420/v1/topics/order.timeout/messages/4711?delay=1h'`,
		`{"topic":"order.timeout","id":"4711","due":"TIME","state":"scheduled"}`,
	},
	{
		`curl 'localhost:8420/v1/topics/order.timeout/messages?state=scheduled'`,
		`{"messages":[{"topic":"order.timeout","id":"4711","state":"scheduled","due":"TIME","first_due":"TIME","attempts_used":0,"published":"TIME","body":"EUR 10"}]}`,
	},
	{`curl -X DELETE localhost:8420/v1/topics/order.timeout/messages/4711`, `{"cancelled":true,"was":"scheduled"}`},
	{`curl -w '%{http_code}' -o /dev/null localhost:8420/v1/topics/order.timeout/messages/4711`, `404`},
	{
		`printf '{"topic":"a","id":"1","body":"x"}\n{"topic":"a b"}\n' | curl --data-binary @- localhost:8420/v1/messages`,
		`{"topic":"a","id":"1","due":"TIME","state":"ready","outcome":"created"}
{"error":{"type":"urn:bellhop:invalid",…}}`,
	},
	{
		`curl -X POST 'localhost:8420/v1/topics/a/claim?wait=5s'`,
		`{"messages":[{"topic":"a","id":"1","receipt":RECEIPT,"attempt":1,"late_ms":MS,"first_due":"TIME","due":"TIME","published":"TIME","body":"x"}]}`,
	},
	{`curl -X POST "localhost:8420/v1/topics/a/messages/1/extend?receipt=$RECEIPT&lease=1m"`, `{"receipt":RECEIPT,"until":"TIME"}`},
	{`curl -w '%{http_code}' -X POST "localhost:8420/v1/topics/a/messages/1/nack?receipt=$RECEIPT&dead=true&reason=no"`, `204`},
	{
		`curl localhost:8420/v1/topics/a/dead`,
		`{"messages":[{"topic":"a","id":"1","state":"dead","first_due":"TIME","died":"TIME","reason":"no","attempts_used":1,"history":[{"ended":"TIME","took_ms":MS,"worker":"NAME","reason":"no"}],"published":"TIME","body":"x"}]}`,
	},
	{`curl -X POST 'localhost:8420/v1/find/requeue?q=topic:a+state:dead&all=true'`, `{"matched":1,"done":1,"looked":1,"of":1}`},
	{
		`curl -X POST 'localhost:8420/v1/topics/a/claim'`,
		`{"messages":[{"topic":"a","id":"1","receipt":RECEIPT,"attempt":1,"late_ms":MS,"first_due":"TIME","history":[{"ended":"TIME","took_ms":MS,"worker":"NAME","reason":"no"}],"due":"TIME","published":"TIME","body":"x"}]}`,
	},
	{`curl -w '%{http_code}' -X POST "localhost:8420/v1/topics/a/messages/1/ack?receipt=$RECEIPT"`, `204`},
	{`curl -d "[{\"id\":\"1\",\"receipt\":$RECEIPT}]" localhost:8420/v1/topics/a/ack`, `{"acked":0,"lost":["1"]}`},
	{`curl -w '%{http_code}' -X POST localhost:8420/v1/topics/a/pause`, `204`},
	{`curl -w '%{http_code}' -X POST localhost:8420/v1/topics/a/resume`, `204`},
	{
		`curl -X PATCH -d '{"attempts":5,"lease":"1m"}' localhost:8420/v1/topics/a/settings`,
		`{"topic":"a","attempts":5,"lease_ms":60000,"backoff_min_ms":1000,"backoff_max_ms":600000,"archive_acked":false,"paused":false,"history":true,"key_concurrency":1,"on_retry":"block","on_dead":"go","concurrency":0,"rate":"none","burst":0,"branches":"","branch_ttl_ms":0,"own":["attempts","lease"]}`,
	},
	{
		`curl -X PATCH -H 'Content-Type: application/merge-patch+json' -d '{"lease":null}' localhost:8420/v1/topics/a/settings`,
		`{"topic":"a","attempts":5,"lease_ms":30000,"backoff_min_ms":1000,"backoff_max_ms":600000,"archive_acked":false,"paused":false,"history":true,"key_concurrency":1,"on_retry":"block","on_dead":"go","concurrency":0,"rate":"none","burst":0,"branches":"","branch_ttl_ms":0,"own":["attempts"]}`,
	},
	{
		`curl 'localhost:8420/v1/topics/*/settings'`,
		`{"topic":"*","attempts":10,"lease_ms":30000,"backoff_min_ms":1000,"backoff_max_ms":600000,"archive_acked":false,"paused":false,"history":true,"key_concurrency":1,"on_retry":"block","on_dead":"go","concurrency":0,"rate":"none","burst":0,"branches":"","branch_ttl_ms":0,"own":[]}`,
	},
	{`curl -s localhost:8420/v1/topics/a | grep -o '"topic":"a"'`, `"topic":"a"`},
	{`curl -s localhost:8420/v1/topics | grep -o '"topic":"[^"]*"'`, `"topic":"a"
"topic":"order.timeout"`},
	{`curl -s localhost:8420/v1/carrier | grep -o '"epoch":1' | uniq`, `"epoch":1`}, // of several shards each has one
	{
		`curl -H 'Content-Type: text/plain' -d hello localhost:8420/v1/topics/news/broadcasts?id=b`,
		`{"topic":"news","id":"b","due":"TIME","state":"scheduled","outcome":"created"}`,
	},
	{
		`curl -N --max-time 20 'localhost:8420/v1/topics/news/broadcasts?since=beginning' 2>/dev/null | sed -n '/^event/,/^$/{p;/^$/q}'`,
		`event: broadcast
data: {"topic":"news","id":"b","due":"TIME","published":"TIME","content_type":"text/plain","body":"hello"}`,
	},
	{`curl localhost:8420/healthz`, `{"status":"ok"}`},
	{`curl localhost:8420/readyz`, `{"status":"ready","carrier":{"epoch":1}}`},
	{`curl -s localhost:8420/v1/openapi.json | grep -o '"openapi":"3.1.0"'`, `"openapi":"3.1.0"`},
}

var (
	times    = regexp.MustCompile(`"\d{4}-\d\d-\d\dT[^"]*Z"`)
	receipts = regexp.MustCompile(`"receipt":(\d+)`)
	late     = regexp.MustCompile(`"late_ms":\d+`)
	had      = regexp.MustCompile(`"took_ms":\d+,"worker":"[^"]*"`)
	faults   = regexp.MustCompile(`("type":"urn:bellhop:[a-z-]+"),.*`)
)

func TestCurl(t *testing.T) {
	t.Parallel()
	want(t, "curl", "curl")
	store := storetest.Open(t)
	c := carry(t, store)
	h := serve(t, store, httpapi.Options{Heard: heardBy(c)}, httpapi.Timing{Quiet: 100 * time.Millisecond}) // curl notices the end of sed at the next comment
	storetest.Eventually(t, "it is ready", func() bool {
		r, err := h.send(client(t), "GET", "/readyz", "")
		return err == nil && r.status == 200 && c.States()[0].Heard != 0
	})
	receipt := ""
	for _, one := range curls {
		command := strings.ReplaceAll(one.command, "localhost:8420", h.addr)
		run := func() []byte {
			cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.Replace(command, "curl ", "curl -sS ", 1))
			cmd.Env = append(cmd.Environ(), "RECEIPT="+receipt)
			said, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%s: %v\n%s", one.command, err, said)
			}
			return said
		}
		said := run()
		if strings.HasSuffix(one.command, "/readyz") { // Redis may take too long for a look
			storetest.Eventually(t, "it is ready", func() bool {
				if strings.Contains(string(said), `"ready"`) {
					return true
				}
				said = run()
				return false
			})
		}
		if found := receipts.FindSubmatch(said); found != nil {
			receipt = string(found[1])
		}
		alike := receipts.ReplaceAllString(times.ReplaceAllString(strings.TrimSpace(string(said)), `"TIME"`), `"receipt":RECEIPT`)
		alike = late.ReplaceAllString(alike, `"late_ms":MS`)
		alike = had.ReplaceAllString(alike, `"took_ms":MS,"worker":"NAME"`)
		alike = faults.ReplaceAllString(alike, "$1,…}}")
		if diff := cmp.Diff(one.prints, alike); diff != "" {
			t.Fatalf("%s\n%s", one.command, diff)
		}
	}
	if _, err := storetest.Inspector(t, store).Inspect(t.Context(), "a", "1"); err == nil {
		t.Error("the message is still there")
	}
}
