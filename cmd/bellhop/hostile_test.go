package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sys/unix"

	"github.com/bellhopd/bellhop/notify/storetest"
)

// hostile is a text that a terminal would obey: it rings, clears, colours, reverses lines and ends them.
const hostile = "a\x1b[2J\a\r\u009b31m\u202eb\u2066c\u2028d\n\xff"

// plantHostile makes the content of a shell's store hostile: a dead letter and its
// reason, a ready message's id, a listener, and the carrier's name.
func (s *shell) plantHostile() {
	s.t.Helper()
	s.call("publish", "t", "--id", "1", "--body", hostile[:len(hostile)-1])
	s.call("work", "t", "--count", "1", "--", "sh", "-c", "exit 65")
	s.call("publish", "t", "--id", "2", "--body", hostile[:len(hostile)-1])
	s.call("publish", "t", "--id", "3", "--delay", "1h", "--body", "x", "--header", "A=\u202e", "--content-type", "text/plain")
	p := s.start("listen", "t", "--name", "n")
	p.await(1, "msg=listening")
	p.stop()
	store := storetest.At(s.t, s.setting("BELLHOP_REDIS_URL"), s.setting("BELLHOP_PREFIX"))
	keys, client, ctx := store.Keys(), store.Client(), s.t.Context()
	one := client.HGet(ctx, keys.Listeners(), "n").Val()
	_, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.HSet(ctx, keys.Deaths(), "t:1", hostile)
		p.HSet(ctx, keys.Messages(), "t:1", `1,{"type":"\u001b","headers":{"\u202e":"\r"}}`+"\n"+hostile)
		p.HSet(ctx, keys.Messages(), "t:"+hostile, "1\n"+hostile)
		p.ZAdd(ctx, keys.Ready("t"), redis.Z{Score: 1, Member: "t:" + hostile})
		p.HSet(ctx, keys.Messages(), hostile+":"+hostile, hostile) // in no place
		p.HSet(ctx, keys.Topics(), hostile+":published", 1)
		p.HSet(ctx, keys.Listeners(), hostile, one)
		p.Set(ctx, keys.Carrier(), "1 1 3000 "+hostile, 0)
		return nil
	})
	storetest.Must(s.t, err)
}

// shows checks that a terminal would only show the printed text, and that the hostile text is in it.
func shows(t *testing.T, call, printed string) {
	t.Helper()
	if !utf8.ValidString(printed) || strings.ContainsFunc(printed, func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' }) {
		t.Errorf("bellhop %s prints %q", call, printed)
	}
	if strings.Contains(call, "topics") { // only topics with valid names are listed
		return
	}
	if lower := strings.ToLower(printed); !strings.Contains(lower, `\u202e`) {
		t.Errorf("bellhop %s leaves out the hostile text:\n%s", call, printed)
	}
}

func TestHostileRedis(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.plantHostile()
	for _, call := range []string{
		"inspect t 1", "inspect t 2", "inspect t 3", "inspect t --state ready", "inspect t --state dead", "dead list t",
		"listeners", "carrier", "topics", "doctor", "dead export t", "export -", "work t --count 2",
	} {
		args := strings.Fields(call)
		r := s.feed("", args...)
		shows(t, call, r.out+r.err)
		if len(r.out) == 0 {
			t.Errorf("bellhop %s: exit %d, %s", call, r.code, r.err)
		}
	}
}

func TestHostileRedisInJSON(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.plantHostile()
	for _, call := range []string{
		"inspect t 1", "inspect t --state ready", "dead list t", "listeners", "carrier", "topics", "doctor", "dead export t", "work t --count 2",
	} {
		r := s.feed("", append(strings.Fields(call), "--json")...)
		shows(t, call, r.out)
		for _, line := range strings.Split(strings.TrimSpace(r.out), "\n") {
			if !json.Valid([]byte(line)) {
				t.Errorf("bellhop %s prints invalid JSON: %s", call, line)
			}
		}
	}
}

// Errors and the log quote answers of Redis.
func TestHostileErrors(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.publish("t", 1)
	store := storetest.At(t, s.setting("BELLHOP_REDIS_URL"), s.setting("BELLHOP_PREFIX"))
	store.Client().Set(t.Context(), store.Keys().Format(), hostile, 0)
	for _, call := range []string{"topics", "publish t --body x", "doctor"} {
		r := s.feed("", strings.Fields(call)...)
		shows(t, "of an error, "+call, r.out+r.err)
	}
	r := s.feed(`{"topic":"`+"\u202e"+`","body":"x"}`, "publish", "--file", "-")
	shows(t, "publish --file", r.out+r.err)
	script := `printf '` + `\033[2J\302\233` + `\342\200\256' >&2; exit 1`
	for _, format := range []string{"text", "json"} {
		s := newShell(t, "BELLHOP_LOG_FORMAT="+format)
		s.call("topics", "set", "t", "attempts=1")
		s.publish("t", 1)
		p := s.start("work", "t", "--", "sh", "-c", script)
		p.await(1, "message died")
		p.stop()
		logged := p.said()[strings.Index(p.said(), "message died"):]
		shows(t, "work, of the log in "+format, logged)
	}
}

// A terminal gets no hostile text either.
func TestHostileRedisOnTerminal(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.plantHostile()
	shows(t, "inspect", s.onTerminal("inspect", "t", "1"))
}

// onTerminal calls the program on a terminal, and returns its output.
func (s *shell) onTerminal(args ...string) string {
	s.t.Helper()
	out, code := s.answers("", args...)
	if code != exitDone {
		s.t.Fatalf("bellhop %s: exit %d\n%s", strings.Join(args, " "), code, out)
	}
	return out
}

// answers calls the program on a terminal where somebody types, and returns its output and exit code.
func (s *shell) answers(typed string, args ...string) (out string, code int) {
	s.t.Helper()
	ours, theirs := openTerminal(s.t)
	storetest.Must(s.t, storetest.ErrOf(io.WriteString(ours, typed)))
	ended := make(chan int, 1)
	go func() {
		defer theirs.Close()
		ended <- run(args, s.env, theirs, theirs, theirs)
	}()
	all, _ := io.ReadAll(ours) // it ends with an error once the other end is closed
	return strings.ReplaceAll(string(all), "\r\n", "\n"), <-ended
}

// openTerminal opens a terminal of 80 columns and 24 rows, as in pty(7): our end, and a program's.
func openTerminal(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	storetest.Must(t, err)
	t.Cleanup(func() { ours.Close() })
	storetest.Must(t, unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0))
	storetest.Must(t, unix.IoctlSetWinsize(int(ours.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}))
	n, err := unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	storetest.Must(t, err)
	if theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	return ours, theirs
}
