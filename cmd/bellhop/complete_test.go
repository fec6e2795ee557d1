package main

import (
	"net"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/notify/storetest"
)

// completes returns the completions that the shell is offered, one a line.
func (s *shell) completes(args ...string) string {
	s.t.Helper()
	out := s.call(append([]string{"__complete"}, args...)...)
	offered, directive, _ := strings.Cut(out, ":")
	if !strings.HasPrefix(directive, "4\n") && !strings.Contains(strings.Join(args, " "), "work mail") { // no files
		s.t.Errorf("bellhop %v <Tab> answers %q", args, out)
	}
	return offered
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.publish("order.timeout", 1)
	s.publish("order", 1)
	s.publish("mail", 1)
	s.publish("orderly", 1)
	s.listen("mail", "--name", "billing").stop()
	s.plantHostile()
	for _, test := range []struct{ args, want string }{
		{"work ", "mail order order.timeout orderly t"},
		{"work ord", "order order.timeout orderly"},
		{"work order", "order order.timeout orderly"},
		{"work order.", "order.timeout"},
		{"work orderz", ""},
		{"publish m", "mail"},
		{"broadcast m", "mail"},
		{"listen m", "mail"},
		{"inspect m", "mail"},
		{"cancel m", "mail"},
		{"reschedule m", "mail"},
		{"pause m", "mail"},
		{"resume m", "mail"},
		{"dead list m", "mail"},
		{"dead requeue m", "mail"},
		{"dead purge m", "mail"},
		{"dead export m", "mail"},
		{"topics set m", "mail"},
		{"topics settings m", "mail"},
		{"topics settings mail ", ""},
		{"work mail m", ""},
		{"work mail -- m", ""},
		{"inspect mail --state ", "scheduled ready blocked leased dead done"},
		{"listeners remove ", "billing n"},
		{"listeners remove b", "billing"},
		{"listen mail --name b", "billing"},
	} {
		args := strings.Split(test.args, " ")
		if got := strings.Join(strings.Fields(s.completes(args...)), " "); got != test.want {
			t.Errorf("bellhop %s<Tab> offers %q, want %q", test.args, got, test.want)
		}
	}
}

// The number of completions is bounded, and a silent Redis delays them for less than it delays a call.
func TestCompletionIsBounded(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	var lines strings.Builder
	for i := range 3 * maxCompletions {
		lines.WriteString(`{"topic":"t.z` + strings.Repeat("x", i%100) + strings.Repeat("y", i/100) + `","body":"x"}` + "\n")
	}
	if r := s.feed(lines.String(), "publish", "--file", "-"); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	if n := len(strings.Fields(s.completes("work", "t"))); n != maxCompletions {
		t.Errorf("%d topics are offered, want %d", n, maxCompletions)
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	storetest.Must(t, err)
	url, ended := "redis://"+silent.Addr().String(), make(chan result, 1)
	go func() { ended <- s.feed("", "inspect", "t", "--redis", url) }()
	for _, url := range []string{url, "redis://127.0.0.1:1", "nonsense"} {
		if got := s.completes("work", "--redis", url, ""); got != "" {
			t.Errorf("%s: it offers %q", url, got)
		}
	}
	select {
	case r := <-ended:
		t.Errorf("completions wait as long as a call does: %+v", r)
	default:
		silent.Close()
		storetest.Receive(t, "the end of a call", ended)
	}
}

func TestRedisFlag(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	for _, call := range []string{
		"publish t --body x", "publish --file -", "broadcast t --body x", "topics", "forecast", "topics set t attempts=5", "topics settings", "listeners", "listeners remove n", "pause t", "resume t", "inspect t", "inspect t 1", "cancel t 1",
		"reschedule t 1 --now", "dead list t", "dead requeue t 1", "dead purge t 1", "dead export t", "export -", "carrier", "doctor",
	} {
		r := s.feed(`{"topic":"t","body":"x"}`, append(strings.Fields(call), "--redis", "redis://127.0.0.1:1")...)
		if r.code != exitFailed {
			t.Errorf("bellhop %s: exit %d", call, r.code)
		}
		contains(t, r.out+r.err, "redis at redis://127.0.0.1:1")
	}
	for _, call := range []string{"serve", "work t", "listen t"} {
		p := s.start(append(strings.Fields(call), "--redis", "redis://127.0.0.1:1")...)
		p.await(1, at("redis://127.0.0.1:1"))
		p.stop()
	}
	s.publish("t", 1)
	offline := newShell(t, "BELLHOP_REDIS_URL=redis://127.0.0.1:1", "BELLHOP_PREFIX="+s.setting("BELLHOP_PREFIX"))
	if got := offline.call("work", "t", "--count", "1", "--redis", storetest.URL(), "--", "sh", "-c", "echo $BELLHOP_REDIS_URL"); got != storetest.URL()+"\n" {
		t.Errorf("the command's environment names %q", got)
	}
}

// A password in --redis, which ps shows, is rejected, and its error does not repeat it.
func TestRedisFlagRefuses(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	for url, want := range map[string]string{
		"redis://:geheim@127.0.0.1:6379":   "--redis contains a password, which ps shows to everybody: put it into a file that BELLHOP_REDIS_PASSWORD_FILE names",
		"redis://u:geheim@h:1":             "--redis contains a password",
		"redis://h:1,redis://u:geheim@h:2": "--redis contains a password",
		"redis://:@h":                      "--redis contains a password",
		"redis:geheim@h":                   "--redis: invalid redis URL [unreadable]",
		"http://h":                         "--redis: invalid redis URL",
		"redis://h?password=geheim":        "--redis: invalid redis URL redis://h: unexpected option: password",
		"":                                 `invalid argument "" for "--redis" flag: it is empty; leave it out`,
	} {
		got := s.fails(exitUsage, "topics", "--redis", url)
		contains(t, got, want, "run 'bellhop topics --help'")
		if strings.Contains(got, "geheim") {
			t.Errorf("%s is repeated: %s", url, got)
		}
	}
}
