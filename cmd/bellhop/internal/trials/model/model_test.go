package model_test

import (
	"cmp"
	"context"
	"encoding/gob"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

var publishes = flag.Int64("model.publishes", 20_000, "how many messages are published, in rounds of at most 100,000")

const (
	publishers = 16
	workers    = 8
	carriers   = 2
	perRound   = 100_000
	killEvery  = 200 * time.Millisecond
)

// The test binary also runs as the processes under test: MODEL_ROLE names the role.
func TestMain(m *testing.M) {
	role := os.Getenv("MODEL_ROLE")
	if role == "" {
		storetest.MainInTime(m)
		return
	}
	if err := play(role); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// An id is a topic and an id in it.
type id struct{ topic, id int }

// A trial is one round.
type trial struct {
	t         *testing.T
	db        *notify.Store
	lives     atomic.Int64 // processes started
	killed    atomic.Int64
	published atomic.Int64

	mu    sync.Mutex
	calls map[id][]call
}

// Processes publish, cancel, look at and work on few ids, and are killed and started
// again. All that they were answered agrees with the model.
func TestModel(t *testing.T) {
	for left := *publishes; left > 0; left -= perRound {
		tr := &trial{t: t, db: storetest.Open(t), calls: make(map[id][]call)}
		tr.run(min(left, perRound))
		tr.check()
		if t.Failed() {
			return
		}
	}
}

// run lets processes publish n messages, and waits until all leases have ended and all
// ids are free, or those of dead letters.
func (tr *trial) run(n int64) {
	stop := make(chan struct{})
	var crew, movers sync.WaitGroup
	for i := range publishers + workers {
		role := "publisher"
		if i < workers {
			role = "worker"
		}
		crew.Go(func() { tr.keep(role, stop) })
	}
	ended := make(chan struct{})
	for range carriers {
		movers.Go(func() { tr.keep("carrier", ended) })
	}
	enough := storetest.Poll(10*time.Millisecond, 10*time.Minute, func() bool { return tr.published.Load() >= n || tr.t.Failed() })
	close(stop)
	crew.Wait()
	if !enough {
		tr.t.Errorf("only %d messages were published", tr.published.Load())
	}
	storetest.Eventually(tr.t, "all leases have ended and all broadcasts are sent", func() bool {
		for topic := range topics {
			c, err := storetest.Count(tr.db, topicOf(topic))
			if err != nil || c.Scheduled+c.Leased > 0 || c.Broadcasts > 0 {
				return false
			}
		}
		return true
	})
	close(ended)
	movers.Wait()
	tr.lookAtAll()
}

// keep runs processes in a role, one after the other, and kills each after a random
// while, until stop is closed.
func (tr *trial) keep(role string, stop <-chan struct{}) {
	const mean = killEvery * (publishers + workers + carriers)
	for !tr.t.Failed() {
		p, err := tr.start(role)
		if err != nil {
			tr.t.Error(err)
			return
		}
		select {
		case <-stop:
			if err := p.stop(); err != nil {
				tr.t.Errorf("%s: %v\n%s", role, err, p.stderr.String())
			}
			return
		case <-p.ended:
			tr.t.Errorf("%s ended: %v\n%s", role, p.err, p.stderr.String())
		case <-time.After(rand.N(2 * mean)):
			_ = p.Process.Kill() // it is waited for
			<-p.ended
			tr.killed.Add(1)
		}
		tr.note(p.pending, false)
	}
}

// A process plays a role.
type process struct {
	*exec.Cmd
	stdin   io.Closer
	stderr  strings.Builder
	ended   chan struct{} // closed when it has ended; then the fields below are valid
	pending []call        // that were not answered
	err     error
}

func (tr *trial) start(role string) (*process, error) {
	p := &process{Cmd: exec.Command(os.Args[0]), ended: make(chan struct{})}
	p.Env = append(os.Environ(), "MODEL_ROLE="+role, "MODEL_LIFE="+strconv.FormatInt(tr.lives.Add(1), 10),
		"MODEL_URL="+tr.db.Address(), "MODEL_PREFIX="+tr.db.Keys().Prefix())
	p.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.Stderr = &p.stderr
	stdin, err := p.StdinPipe()
	if err != nil {
		return nil, err
	}
	p.stdin = stdin
	stdout, err := p.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.Start(); err != nil {
		return nil, err
	}
	go func() {
		tr.read(p, stdout)
		p.err = p.Wait()
		close(p.ended)
	}()
	return p, nil
}

// stop ends a process in order.
func (p *process) stop() error {
	p.stdin.Close()
	<-p.ended
	return p.err
}

// read reads the calls that a process writes, each time before it makes them and after.
func (tr *trial) read(p *process, from io.Reader) {
	in := gob.NewDecoder(from)
	for {
		var calls []call
		if in.Decode(&calls) != nil {
			return // it has ended
		}
		if p.pending == nil {
			p.pending = calls
			continue
		}
		tr.note(calls, true)
		p.pending = nil
	}
}

// note notes calls. Those that were not answered may have happened until now: Redis reads
// what a killed process has sent before it answers a second call that was made after.
func (tr *trial) note(calls []call, answered bool) {
	if !answered {
		for range 2 {
			storetest.Should(tr.t, tr.db.Client().Ping(context.Background()).Err())
		}
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, c := range calls {
		if !answered {
			c.End = time.Now().UnixMicro()
		}
		if c.Kind == publishing {
			tr.published.Add(1)
		}
		of := id{c.Topic, c.ID}
		tr.calls[of] = append(tr.calls[of], c)
	}
}

// lookAtAll looks at each id, when nothing changes any more but ids that become free.
func (tr *trial) lookAtAll() {
	p := player{look: storetest.Inspector(tr.t, tr.db)}
	for topic := range topics {
		for i := range ids {
			c := call{Kind: looking, Topic: topic, ID: i, Begin: time.Now().UnixMicro(), Answered: true}
			storetest.Should(tr.t, c.answer("ok", p.see(context.Background(), &c)))
			c.End = time.Now().UnixMicro()
			tr.note([]call{c}, true)
		}
	}
}

// check checks the calls on each id, and reports how often each was answered what.
func (tr *trial) check() {
	answers := make(map[string]int)
	var mu sync.Mutex
	var all sync.WaitGroup
	next := make(chan id)
	for range 4 {
		all.Go(func() {
			for of := range next {
				if err := check(tr.calls[of]); err != nil {
					mu.Lock()
					tr.t.Errorf("%s:%d: %v", topicOf(of.topic), of.id, err)
					mu.Unlock()
				}
			}
		})
	}
	for of, calls := range tr.calls {
		next <- of
		for _, c := range calls {
			answers[fmt.Sprintf("%s %s", kindNames[c.Kind], cmp.Or(c.Answer, "-"))]++
		}
	}
	close(next)
	all.Wait()
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(answers)) {
		fmt.Fprintf(&text, "\n%8d %s", answers[name], name)
	}
	tr.t.Logf("%d publishes, %d processes killed; answers:%s", tr.published.Load(), tr.killed.Load(), text.String())
}

var kindNames = [...]string{
	publishing: "publish", cancelling: "cancel", cancellingNext: "cancel next", looking: "inspect", claiming: "claim", claimingNow: "claim ack=now",
	acking: "ack", nacking: "nack", burying: "bury", snoozing: "snooze", releasing: "release", extending: "extend",
}
