//go:build linux

package vm_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/pagestest"
	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/vm/sandbox"
)

// Every command of the page works as it is written, in the order of the page.
func TestPage(t *testing.T) {
	t.Parallel()
	h := bare(t, sandbox.Options{})
	h.Run("rm", "-f", "/var/lib/man-db/auto-update") // an index of man pages takes seconds
	h.redis()
	h.Run("mv", "/root/bellhop.deb", "/root/bellhop_0.1.0_amd64.deb")
	for _, block := range pagestest.Blocks(t, root+"/systemd/README.md", "") {
		if strings.Contains(block, "make install") || strings.Contains(block, "/srv/release") {
			continue // see TestMakeInstall and TestRelease
		}
		if strings.Contains(block, "redis-password") {
			h.Run("redis-cli", "config", "set", "requirepass", "PASSWORD")
		}
		said := h.Run("bash", "-ec", "export APT_LISTCHANGES_FRONTEND=none DEBIAN_FRONTEND=noninteractive; cd /root; "+strings.ReplaceAll(block, "apt ", "apt -q -y --no-install-recommends "))
		switch {
		case strings.Contains(block, "redis-password"):
			h.becomes(service, "StatusText", "carrier")
			h.Run("redis-cli", "-a", "PASSWORD", "config", "set", "requirepass", "")
			h.Run("rm", "/etc/credstore/bellhop.redis-password")
			h.Run("systemctl", "restart", service)
		case strings.Contains(block, "TOKENS_FILE"):
			h.answers("/v1/topics", "401")
			h.answers("/v1/topics", "200", "-H", "Authorization: Bearer "+strings.Fields(h.Run("cat", "/etc/bellhop/tokens"))[1])
		case strings.Contains(block, "bellhop-work@"):
			contains(t, said, `order order-4718 was not paid: {"total":12}`)
		case strings.Contains(block, "bellhop-listen@"):
			h.logs("bellhop-listen@prices.gold", "gold is at 42")
		}
	}
}

// A call is one of the page of HTTP: a part of its line, the status and the body of its
// answer, and what the stream then contains.
type call struct{ line, status, body, stream string }

var calls = []call{
	{line: `-d '{"total":12}'`, status: "201", body: `"id":"order-4719",.*"state":"scheduled"`},
	{line: `/claim?wait=30s`, status: "200", body: `"id":"order-4719","receipt":\d+,.*"body":"{\\"total\\":12}"`},
	{line: `/extend?receipt=`, status: "200", body: `^{"receipt":\d+,"until":"[^"]+"}$`},
	{line: `/ack?receipt=`, status: "204", body: `^$`},
	{line: `-d '{"total":7}'`, status: "201", body: `"id":"order-4720",.*"state":"scheduled"`},
	{line: `/messages/order-4720`, status: "200", body: `"state":"scheduled"`},
	{line: `PATCH`, status: "200", body: `"id":"order-4720"`},
	{line: `DELETE`, status: "200", body: `"cancelled":true,"was":"scheduled"`},
	{line: `/v1/topics`, status: "200", body: `"topic":"order.paid"`},
	{line: `-d 7`, status: "201", body: `"id":"r-2"`},
	{line: `worker=desk-2`, status: "200", body: `"id":"r-2","receipt":\d+`},
	{line: `keep=1d`, status: "204", body: `^$`},
	{line: `r-2?wait=30s`, status: "200", body: `"state":"done".*"result":"seven pages"`},
	{line: `/v1/workers`, status: "200", body: `"workers":\[`},
	{line: `curl --data-binary @-`, status: "200", body: `^{"topic":"order.paid",.*"state":"scheduled","outcome":"created"}$`},
	{line: `PATCH -d`, status: "200", body: `"topic":"order.paid","attempts":5,"lease_ms":60000,.*"own":\["attempts","lease"\]`},
	{line: `/*/settings`, status: "200", body: `"topic":"\*","attempts":10,.*"own":\[\]`},
	{line: `/v1/find `, status: "200", body: `"messages":\[.*"looked":\d+,"of":\d+`},
	{line: `/v1/find/requeue`, status: "200", body: `"matched":0,"done":0`},
	{line: `/v1/forecast`, status: "200", body: `"counts":\[`},
	{line: `/v1/history`, status: "200", body: `"samples":\[`},
	{line: `curl -N`}, // the stream, which does not end
	{line: `-d 42`, status: "201", body: `"topic":"prices.gold",.*"state":"scheduled"`, stream: `^data: .*"topic":"prices.gold",.*"body":"42"`},
	{line: `/v1/listeners`, status: "200", body: `"listeners":\[`},
	{line: `'Authorization: Bearer `, status: "201", body: `"topic":"mail",.*"state":"ready"`},
}

var receipt = regexp.MustCompile(`"receipt":(\d+)`)

// calls makes a call as the page has it, and returns the body of the answer.
func (h *host) calls(c call, line string) (body string) {
	h.t.Helper()
	if c.status == "" {
		h.Run("systemd-run", "--quiet", "--unit=stream", "-p", "StandardOutput=file:/run/stream", "-E", "HOME=/root", "bash", "-c", line)
		return ""
	}
	said := h.Run("bash", "-ec", line)
	body, status, found := strings.Cut(said, "\nSTATUS ")
	if body = strings.TrimSpace(body); !found || status != c.status || !regexp.MustCompile(c.body).MatchString(body) {
		h.t.Errorf("%s\nanswers %s\nwant %s and %s", line, said, c.status, c.body)
	}
	if c.stream != "" {
		h.holds("grep", "-q", c.stream, "/run/stream")
	}
	return body
}

// Every call of the page works as it is written, with the daemon of the package.
func TestPageOfHTTP(t *testing.T) {
	t.Parallel()
	h, _ := running(t)
	h.Write("/root/.curlrc", "silent\nshow-error\nwrite-out = \"\\nSTATUS %{http_code}\"\n", 0o600)
	rest, number := calls, "RECEIPT"
	for _, block := range pagestest.Blocks(t, root+"/daemon/httpapi/README.md", "") {
		if strings.HasPrefix(block, "# NAME") { // the file of tokens, put in place as on the page of a VM
			h.secret("/etc/bellhop/tokens", block)
			h.settings("BELLHOP_TOKENS_FILE=/etc/bellhop/tokens")
			h.Run("systemctl", "restart", service)
			h.answers("/v1/topics", "401")
			continue
		}
		if strings.Contains(block, "push put") || strings.Contains(block, "/v1/clock") { // TestPageOfPushes and TestPageOfAClockForTests of cmd/bellhop
			continue
		}
		for line := range strings.Lines(block) {
			if len(rest) == 0 || !strings.Contains(line, rest[0].line) {
				t.Fatalf("the page has %sand the test has %v", line, rest)
			}
			body := h.calls(rest[0], strings.Replace(line, "RECEIPT", number, 1))
			if found := receipt.FindStringSubmatch(body); found != nil {
				number = found[1]
			}
			rest = rest[1:]
		}
	}
	if len(rest) > 0 {
		t.Errorf("the page has no longer %v", rest)
	}
}

// Every command of the page on many masters works as it is written: a store of eight shards
// on a Redis Cluster of three masters, with a daemon that carries them all.
func TestPageOfManyMasters(t *testing.T) {
	t.Parallel()
	h := installed(t, sandbox.Options{})
	h.Run("ln", "-s", "/usr/bin/bellhop", "/root/bellhop")
	var exports string
	for _, line := range pagestest.Lines(t, root+"/daemon/README.md", "Many masters") {
		run := func() (string, error) { return h.Try("bash", "-ec", "cd /root; "+exports+line) }
		command, background := strings.CutSuffix(line, " &")
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "ACL "):
			h.Run("redis-cli", append([]string{"-p", "7001"}, strings.Fields(line)...)...)
		case strings.HasPrefix(line, "export "):
			exports = line + "; "
		case background:
			h.Run("systemd-run", "--quiet", "--unit=serve", "bash", "-c", "cd /root; "+exports+"exec "+command)
		case strings.Contains(line, "bellhop shards"), strings.Contains(line, "bellhop doctor"): // until all are carried
			var said string
			if !eventually(func() (ok bool) {
				var err error
				said, err = run()
				return err == nil && strings.Count(said, " fail ") == 0
			}) {
				t.Errorf("%s\n%s\n%s", line, said, h.journal("-u", "serve"))
			}
		default:
			if said, err := run(); err != nil {
				t.Fatalf("%s: %v\n%s", line, err, said)
			}
			if strings.Contains(line, "--cluster create") { // its masters agree a little later
				h.holds("sh", "-c", "for port in 7001 7002 7003; do redis-cli -p $port cluster info | grep -q cluster_state:ok || exit 1; done")
			}
		}
	}
}
