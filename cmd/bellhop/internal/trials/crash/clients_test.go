package crash_test

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

var clientKillsFlag = flag.Int("crash.clients", 15, "how many daemons and workers TestKillWithClients kills")

// packageLease is the lease of the workers of TestKillWithClients.
const packageLease = 2 * time.Second

// languages has the command that runs a program with the package of each language.
var languages = map[string][]string{"node": {"node", "testdata/client.mjs"}, "python": {"python3", "testdata/client.py"}}

// A taking is a message in the hands of a worker, from the claim until its lease ends, in µs by the clock of Redis.
type taking struct {
	attempt     int
	from, until int64
}

// takings are what the workers of the packages printed, and which messages were published.
type takings struct {
	mu        sync.Mutex
	published []string
	taken     map[string][]taking
	ended     map[string]bool // handlers
	begun     map[string]int  // handlers, by language
	wrong     []string
}

func newTakings() *takings {
	return &takings{taken: make(map[string][]taking), ended: make(map[string]bool), begun: make(map[string]int)}
}

// line records a line of a worker or publisher in a language. The last one of a killed process may be a part.
func (k *takings) line(language, text string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch word := strings.Fields(text); {
	case len(word) == 2 && word[0] == "published":
		k.published = append(k.published, word[1])
	case len(word) == 2 && word[0] == "ended":
		k.ended[word[1]] = true
	case len(word) == 5 && word[0] == "began":
		attempt, _ := strconv.Atoi(word[2])
		until, _ := strconv.ParseInt(word[3], 10, 64)
		due, err := time.Parse(time.RFC3339, word[4])
		one := taking{attempt, until - packageLease.Microseconds(), until}
		if early := due.UnixMicro() - one.from; err != nil || early > 0 {
			k.wrong = append(k.wrong, fmt.Sprintf("%s was claimed %d µs before it was due", word[1], early))
		}
		k.taken[word[1]] = append(k.taken[word[1]], one)
		k.begun[language]++
	}
}

// check returns what is wrong, and how many times a message came again since a lease had ended.
func (k *takings) check() (wrong []string, again int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, id := range k.published {
		if !k.ended[id] {
			k.wrong = append(k.wrong, id+" was published, and not handled")
		}
	}
	for id, all := range k.taken {
		slices.SortFunc(all, func(a, b taking) int { return cmp.Compare(a.from, b.from) })
		for i, one := range all[1:] {
			if again++; one.from < all[i].until {
				k.wrong = append(k.wrong, fmt.Sprintf("%s was claimed twice under one lease: %+v", id, all))
			}
		}
	}
	return k.wrong, again
}

// Daemons and workers of both packages are killed, one after the other, while both publish: each message is handled, none early, and twice
// only after its lease has ended.
func TestKillWithClients(t *testing.T) {
	t.Parallel()
	k := newClientele(t)
	for range *clientKillsFlag {
		k.kill([]string{"node", "python"}[rand.N(2)], rand.N(3) == 0)
	}
	for _, p := range k.publishers {
		p.end(syscall.SIGTERM)
		if !p.ProcessState.Success() {
			t.Errorf("a publisher ended with %v: %s", p.ProcessState, &p.log)
		}
	}
	gone(t, k.store)
	for _, p := range k.workers {
		p.end(syscall.SIGTERM)
	}
	wrong, again := k.check()
	for _, text := range wrong {
		t.Error(text)
	}
	t.Logf("%d kills, %d messages, %d times again since a lease had ended", *clientKillsFlag, len(k.published), again)
}

// A clientele is a daemon, and a worker and a publisher with each package.
type clientele struct {
	*takings
	t          *testing.T
	store      *notify.Store
	port       int
	daemon     *served
	workers    map[string]*process
	publishers []*process
}

func newClientele(t *testing.T) *clientele {
	t.Helper()
	k := &clientele{takings: newTakings(), t: t, store: storetest.Open(t), port: storetest.Port(t), workers: make(map[string]*process)}
	k.serve()
	for language := range languages {
		k.workers[language] = k.run(language, "worker")
		k.publishers = append(k.publishers, k.run(language, "publisher"))
	}
	return k
}

func (k *clientele) serve() {
	k.daemon = serveHTTP(k.t, k.store, k.port, "BELLHOP_CARRIER_LEASE=500ms")
}

// run starts a process with the package of a language.
func (k *clientele) run(language, role string) *process {
	k.t.Helper()
	command := append(slices.Clone(languages[language]), role, topic, packageLease.String())
	line := func(text string) { k.line(language, text) }
	return launch(k.t, exec.Command(command[0], command[1:]...), line, "BELLHOP_URL=http://127.0.0.1:"+strconv.Itoa(k.port), "PYTHONPATH=../../../../../daemon/httpapi/clients/python")
}

// kill kills the daemon, or the worker in a language, amid messages that the worker handles, and starts the next one.
func (k *clientele) kill(language string, daemon bool) {
	k.t.Helper()
	begun := func() int {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.begun[language]
	}
	until := begun() + 1 + rand.N(20)
	storetest.Eventually(k.t, "the worker in "+language+" handles messages", func() bool { return begun() >= until })
	if daemon {
		k.daemon.end(syscall.SIGKILL)
		k.serve()
		return
	}
	k.workers[language].end(syscall.SIGKILL)
	k.workers[language] = k.run(language, "worker")
}

// What is wrong is found.
func TestTakingsAreChecked(t *testing.T) {
	t.Parallel()
	lease := packageLease.Microseconds()
	const due = "1970-01-01T00:00:01Z"
	began := func(attempt int, from int64) string { return fmt.Sprintf("began a %d %d %s", attempt, from+lease, due) }
	for name, test := range map[string]struct {
		lines []string
		wrong string
		again int
	}{
		"once":                  {[]string{"published a", began(1, 1e6), "ended a"}, "", 0},
		"again":                 {[]string{"published a", began(1, 1e6), "ended a", began(3, 1e6+lease), "ended a"}, "", 1},
		"again, not confirmed":  {[]string{"published a", began(1, 1e6), began(1, 1e6+lease), "ended a"}, "", 1},
		"amid the publish":      {[]string{began(1, 1e6), "ended a", "published a"}, "", 0},
		"lost":                  {[]string{"published a", began(1, 1e6)}, "a was published, and not handled", 0},
		"a line is cut off":     {[]string{"published a", began(1, 1e6), "end"}, "a was published, and not handled", 0},
		"early":                 {[]string{"published a", began(1, 1e6-1), "ended a"}, "a was claimed 1 µs before it was due", 0},
		"twice under one lease": {[]string{"published a", began(2, 1e6+lease-1), began(1, 1e6), "ended a"}, "a was claimed twice under one lease", 1},
	} {
		k := newTakings()
		for _, line := range test.lines {
			k.line("node", line)
		}
		wrong, again := k.check()
		if got := strings.Join(wrong, "; "); test.wrong == "" && got != "" || !strings.HasPrefix(got, test.wrong) || again != test.again {
			t.Errorf("%s: found %q and %d, want %q and %d", name, got, again, test.wrong, test.again)
		}
	}
}
