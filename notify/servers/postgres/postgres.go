// Package postgres runs a private PostgreSQL server as a child of this process, in a
// folder and at a port of its own, for tests. It needs the programs of Debian's package
// and none of its clusters.
package postgres

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bellhopd/bellhop/notify/servers/child"
)

// ErrNotInstalled is returned when there are no programs of PostgreSQL.
var ErrNotInstalled = errors.New("no PostgreSQL in " + programs + "; install it, here with: make tools")

// programs is the folder of the versions that Debian installs.
const programs = "/usr/lib/postgresql"

const (
	startTimeout  = 30 * time.Second
	answerTimeout = 2 * time.Second // of one of the calls that wait for the start
)

// The superuser of every server, and the password that it needs over TCP.
const (
	User     = "bellhop"
	Password = "correct horse: battery/staple@%"
)

// Options are the options of Start.
type Options struct {
	Args   []string  // more arguments, such as "-c", "work_mem=1MB"
	Under  []string  // a command that executes the server's command line, such as "nice", "-n", "10"; empty: none
	Output io.Writer // receives the log; nil: discarded
}

// A Server is a running PostgreSQL server.
type Server struct {
	*child.Process
	o    Options
	dir  string
	bin  string
	port int
	user *syscall.Credential
}

// Start makes a server in a folder of its own and waits until it answers. The error is
// ErrNotInstalled, or why the server does not start.
func Start(ctx context.Context, o Options) (*Server, error) {
	return begin(ctx, o, (*Server).initialize)
}

// Replica starts a server with the data of this one, which it follows asynchronously until
// it is promoted. The errors are those of Start, and of pg_basebackup.
func (s *Server) Replica(ctx context.Context) (*Server, error) {
	return begin(ctx, s.o, func(r *Server, ctx context.Context) error {
		return r.run(ctx, "pg_basebackup", "--pgdata", r.data(), "--host", s.dir, "--port", strconv.Itoa(s.port), "--username", User,
			"--write-recovery-conf", "--checkpoint", "fast", "--no-sync")
	})
}

// begin starts a server after its folder was filled.
func begin(ctx context.Context, o Options, fill func(*Server, context.Context) error) (*Server, error) {
	s := &Server{o: o}
	var err error
	if s.bin, err = newest(); err != nil {
		return nil, err
	}
	if s.user, err = someone(); err != nil {
		return nil, err
	}
	if s.port, err = child.HoldPort(); err != nil {
		return nil, err
	}
	if s.dir, err = os.MkdirTemp("", "bellhop-postgres-"); err != nil {
		return nil, err
	}
	err = s.own(s.dir)
	if err == nil {
		err = fill(s, ctx)
	}
	if err == nil {
		err = s.start(ctx)
	}
	if err != nil {
		os.RemoveAll(s.dir)
		return nil, err
	}
	return s, nil
}

// newest returns the folder of the programs of the newest version.
func newest() (string, error) {
	found, _ := filepath.Glob(programs + "/*/bin/postgres") // the pattern is right
	if len(found) == 0 {
		return "", ErrNotInstalled
	}
	version := func(path string) int {
		n, _ := strconv.Atoi(strings.Split(strings.TrimPrefix(path, programs+"/"), "/")[0])
		return n
	}
	return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return cmp.Compare(version(a), version(b)) })), nil
}

// someone returns a user that may run a server: root may not. It is nil for this
// process's own.
func someone() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		if u, err = user.Lookup("nobody"); err != nil {
			return nil, fmt.Errorf("find a user for PostgreSQL, which does not run as root: %w", err)
		}
	}
	uid, errUID := strconv.ParseUint(u.Uid, 10, 32)
	gid, errGID := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(errUID, errGID)
}

// initialize makes the cluster in the folder.
func (s *Server) initialize(ctx context.Context) error {
	secret := filepath.Join(s.dir, "password")
	if err := os.WriteFile(secret, []byte(Password), 0o600); err != nil {
		return err
	}
	if err := s.own(secret); err != nil {
		return err
	}
	return s.run(ctx, "initdb", "--pgdata", s.data(), "--username", User, "--pwfile", secret,
		"--auth-local", "trust", "--auth-host", "scram-sha-256", "--encoding", "UTF8", "--locale", "C.UTF-8", "--no-sync", "--no-instructions")
}

// own gives a file to the user that runs the server.
func (s *Server) own(path string) error {
	if s.user == nil {
		return nil
	}
	return os.Chown(path, int(s.user.Uid), int(s.user.Gid))
}

// run runs a program of PostgreSQL as that user.
func (s *Server) run(ctx context.Context, program string, args ...string) error {
	c := exec.CommandContext(ctx, filepath.Join(s.bin, program), args...)
	c.Dir, c.SysProcAttr = s.dir, &syscall.SysProcAttr{Credential: s.user}
	if said, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, bytes.TrimSpace(said))
	}
	return nil
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// start starts the program and waits until it answers. Right after a kill that fails,
// as long as processes of the server that was killed are there.
func (s *Server) start(ctx context.Context) error {
	for deadline := time.Now().Add(startTimeout); ; {
		err := s.startOnce(ctx)
		if err == nil || ctx.Err() != nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (s *Server) startOnce(ctx context.Context) (err error) {
	command := slices.Concat(s.o.Under, []string{
		filepath.Join(s.bin, "postgres"), "-D", s.data(), "-p", strconv.Itoa(s.port), "-k", s.dir, "-c", "listen_addresses=127.0.0.1",
		"-c", "fsync=off", "-c", "full_page_writes=off", "-c", "shared_buffers=32MB", "-c", "timezone=Asia/Kathmandu",
	}, s.o.Args)
	s.Process, err = child.Start(child.Program{Path: command[0], Args: command[1:], Name: "postgres at " + s.Addr(), Output: s.o.Output, User: s.user})
	if err != nil {
		return err
	}
	return s.Await(ctx, startTimeout, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, answerTimeout)
		defer cancel()
		conn, err := pgx.Connect(ctx, s.URL("postgres"))
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	})
}

// Addr returns HOST:PORT.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// URL returns the address of a database, with the superuser and its password.
func (s *Server) URL(database string) string {
	return (&url.URL{Scheme: "postgres", User: url.UserPassword(User, Password), Host: s.Addr(), Path: database}).String()
}

// SocketURL returns the address of a database at the server's unix socket, where the
// superuser needs no password.
func (s *Server) SocketURL(database string) string {
	return (&url.URL{
		Scheme: "postgres", User: url.User(User), Path: "/" + database,
		RawQuery: url.Values{"host": {s.dir}, "port": {strconv.Itoa(s.port)}}.Encode(),
	}).String()
}

// Credential returns the user that runs the server; nil: that of this process.
func (s *Server) Credential() *syscall.Credential { return s.user }

// Create makes an empty database. The error is that of the server.
func (s *Server) Create(ctx context.Context, database string) error {
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{database}.Sanitize())
	return err
}

// Restart starts the server again, with the same data and at the same address, after
// Stop or Kill.
func (s *Server) Restart(ctx context.Context) error { return s.start(ctx) }

// Stop ends the server in good order, and the connections of its clients.
func (s *Server) Stop() {
	_ = s.Resume()
	_ = s.Signal(syscall.SIGINT) // it may have ended by itself
	select {
	case <-s.Done():
	case <-time.After(startTimeout):
		s.Kill()
	}
}

// Pause stops all processes of the server, until Resume.
func (s *Server) Pause() error { return s.signalAll(syscall.SIGSTOP) }

// Resume has a paused server go on.
func (s *Server) Resume() error { return s.signalAll(syscall.SIGCONT) }

// Crash kills all processes of the server at once, where Kill leaves those of connections to
// end by themselves. Pages may be torn then: the server needs full_page_writes=on.
func (s *Server) Crash() {
	_ = s.Pause() // so that it starts no process meanwhile; it may have ended by itself
	for _, id := range s.children() {
		_ = syscall.Kill(id, syscall.SIGKILL)
	}
	s.Kill()
}

// signalAll sends a signal to the server, which starts no process while it is stopped,
// and to its children.
func (s *Server) signalAll(sig syscall.Signal) error {
	if err := s.Signal(sig); err != nil {
		return err
	}
	for _, id := range s.children() {
		_ = syscall.Kill(id, sig) // it may have ended by itself
	}
	return nil
}

// children returns the processes that the server started and that run.
func (s *Server) children() (ids []int) {
	pid := strconv.Itoa(s.Pid())
	text, _ := os.ReadFile(filepath.Join("/proc", pid, "task", pid, "children")) // none is left of a server that has ended
	for _, field := range strings.Fields(string(text)) {
		if id, err := strconv.Atoi(field); err == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// Close kills the server and removes its folder.
func (s *Server) Close() {
	_ = s.Resume()
	s.Stop()
	os.RemoveAll(s.dir)
}
