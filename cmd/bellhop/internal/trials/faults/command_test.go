package faults_test

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/faults/history"
	"github.com/bellhopd/bellhop/notify/servers/child"
)

// commandedTopic is the topic of which bellhop work runs a command for each message.
const commandedTopic = "commanded"

// commanding is the worker that faults of commands hit, beside one that meets none.
var commanding = []string{"command-1"}

// commandFaults hit a command, or what it prints: its worker gives back only what did not begin.
var commandFaults = []fault{
	{"cannot start", commanding, unstart, 500 * time.Millisecond, 3 * time.Second},
	{"output unread", commanding, leaveUnread, 3500 * time.Millisecond, 5 * time.Second},
	{"output full", commanding, fillOutput, 500 * time.Millisecond, 2 * time.Second},
}

// commands reports whether a fault hits a command.
func (s step) commands() bool { return slices.Contains(commanding, s.Target) }

// commandKinds returns the kinds of the faults that hit a command.
func commandKinds() (kinds []string) {
	for _, f := range commandFaults {
		for _, target := range f.targets {
			kinds = append(kinds, f.name+" "+roleOf(target))
		}
	}
	return kinds
}

// An outlet is where a worker passes on what its commands print.
type outlet struct {
	from, to *os.File // a pipe, which is read
	unread   gate     // unless this is held
	isFull   bool     // for the next process: nothing can be written
}

// newOutlet opens a pipe that holds little, and reads it until it is closed.
func newOutlet() (*outlet, error) {
	from, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	o := &outlet{from: from, to: to}
	if _, err := unix.FcntlInt(to.Fd(), unix.F_SETPIPE_SZ, os.Getpagesize()); err != nil {
		return o, fmt.Errorf("make a pipe small: %w", err)
	}
	go func() {
		part := make([]byte, os.Getpagesize())
		for {
			n, err := from.Read(part)
			if err != nil {
				return
			}
			o.unread.through(chunk{part[:n], time.Now()})
		}
	}()
	return o, nil
}

func (o *outlet) close() {
	o.unread.open()
	o.to.Close()
	o.from.Close()
}

//go:embed testdata/command.sh
var commandScript string

// Files of a worker, beside its logs.
func (m *member) script() string      { return filepath.Join(m.w.dir, m.name+".sh") }
func (m *member) interpreter() string { return filepath.Join(m.w.dir, m.name+".bash") }

// giveCommand makes the command of a worker, and its outlet.
func (m *member) giveCommand() (err error) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		return fmt.Errorf("a command that notes the time needs bash: %w", err)
	}
	if err := os.Symlink(bash, m.interpreter()); err != nil {
		return err
	}
	if err := os.WriteFile(m.script(), []byte("#!"+m.interpreter()+"\n"+commandScript), 0o700); err != nil {
		return err
	}
	m.outlet, err = newOutlet()
	return err
}

// workProgram returns the program bellhop work. Its log goes where that of the others goes,
// and what its commands print to its outlet.
func workProgram(m *member) child.Program {
	to := "/dev/fd/3"
	if m.outlet.isFull {
		to = "/dev/full"
	}
	return child.Program{
		Path:  "sh",
		Args:  []string{"-c", `out=$1 && shift && exec "$@" >"$out" 3>&-`, "sh", to, m.bellhop(), "work", commandedTopic, "--concurrency", "4", "--name", m.name, "--", m.script()},
		Files: []*os.File{m.outlet.to},
		Env:   append(m.storeEnv(), "BELLHOP_SHUTDOWN_TIMEOUT=5s", "COMMAND_PROCESS="+m.id(), "COMMAND_HISTORY="+filepath.Join(m.w.dir, commandedTopic)),
	}
}

// unstart makes a command that cannot be started: it may not be executed, or what executes it is
// missing. One that has just begun is not disturbed.
func unstart(_ context.Context, w *world, v *victim, lasts time.Duration) (healing, error) {
	m := v.member
	if rand.New(rand.NewPCG(w.seed, uint64(lasts))).IntN(2) == 0 {
		v.begun.Error = "not executable"
		return func(context.Context) error { return os.Chmod(m.script(), 0o700) }, os.Chmod(m.script(), 0o600)
	}
	v.begun.Error = "no interpreter"
	away := m.interpreter() + ".away"
	return func(context.Context) error { return os.Rename(away, m.interpreter()) }, os.Rename(m.interpreter(), away)
}

// leaveUnread reads nothing of what commands print. The heal reads it.
func leaveUnread(_ context.Context, _ *world, v *victim, _ time.Duration) (healing, error) {
	v.member.outlet.unread.hold()
	return func(context.Context) error {
		v.member.outlet.unread.open()
		return nil
	}, nil
}

// fillOutput gives the next process of a worker an output without space. The heal restarts it with another one.
func fillOutput(ctx context.Context, _ *world, v *victim, _ time.Duration) (healing, error) {
	m := v.member
	become := func(isFull bool) error {
		m.outlet.isFull = isFull
		if err := m.term(0); err != nil {
			return err
		}
		return m.again(ctx)
	}
	return func(context.Context) error { return become(false) }, become(true)
}

// readCommands writes the history of what commands noted, in the form of records.
func (w *world) readCommands() error {
	noted, err := os.Open(filepath.Join(w.dir, commandedTopic))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // no message came
	}
	if err != nil {
		return err
	}
	defer noted.Close()
	var records bytes.Buffer
	lines := bufio.NewScanner(noted)
	for lines.Scan() {
		r, err := readCommand(lines.Text())
		if err != nil {
			return fmt.Errorf("a command noted %q: %w", lines.Text(), err)
		}
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		records.Write(append(line, '\n'))
	}
	return errors.Join(lines.Err(), os.WriteFile(filepath.Join(w.dir, commandedTopic+history.Suffix), records.Bytes(), 0o600))
}

// readCommand reads a line of testdata/command.sh. The time of the claim is told by how late that was.
func readCommand(line string) (r history.Record, err error) {
	words := strings.Fields(line)
	if len(words) != 8 {
		return r, errors.New("it has not 8 words")
	}
	worker, _, _ := strings.Cut(words[2], "/")
	r = history.Record{Process: words[2], N: 1, Op: history.Handle, Phase: history.Phase(words[0]), Topic: words[3], ID: words[4], Target: worker, Lease: lease.Milliseconds()}
	if r.Phase == "buried" {
		r.Phase, r.State = history.No, "dead"
	}
	due, badDue := time.Parse(time.RFC3339, words[5])
	late, badLate := strconv.ParseInt(words[6], 10, 64)
	var badAttempt, badTime error
	r.Attempt, badAttempt = strconv.Atoi(words[7])
	r.At, badTime = strconv.ParseInt(words[1], 10, 64)
	r.Due = due.UnixMilli()
	r.Receipt = (r.Due + late + r.Lease) * 1000
	if late < 0 {
		err = errors.New("it was claimed before it was due")
	}
	return r, errors.Join(err, badDue, badLate, badAttempt, badTime)
}
