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
	err = s.initialize(ctx)
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
	if s.user != nil {
		for _, path := range []string{s.dir, secret} {
			if err := os.Chown(path, int(s.user.Uid), int(s.user.Gid)); err != nil {
				return err
			}
		}
	}
	init := exec.CommandContext(ctx, filepath.Join(s.bin, "initdb"), "--pgdata", s.data(), "--username", User, "--pwfile", secret,
		"--auth-local", "trust", "--auth-host", "scram-sha-256", "--encoding", "UTF8", "--locale", "C.UTF-8", "--no-sync", "--no-instructions")
	init.Dir, init.SysProcAttr = s.dir, &syscall.SysProcAttr{Credential: s.user}
	if said, err := init.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, bytes.TrimSpace(said))
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
	s.Process, err = child.Start(child.Program{
		Path: filepath.Join(s.bin, "postgres"), Name: "postgres at " + s.Addr(), Output: s.o.Output, User: s.user,
		Args: append([]string{
			"-D", s.data(), "-p", strconv.Itoa(s.port), "-k", s.dir, "-c", "listen_addresses=127.0.0.1",
			"-c", "fsync=off", "-c", "full_page_writes=off", "-c", "shared_buffers=32MB", "-c", "timezone=Asia/Kathmandu",
		}, s.o.Args...),
	})
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

// signalAll sends a signal to the server, which starts no process while it is stopped,
// and to its children.
func (s *Server) signalAll(sig syscall.Signal) error {
	if err := s.Signal(sig); err != nil {
		return err
	}
	pid := strconv.Itoa(s.Pid())
	children, err := os.ReadFile(filepath.Join("/proc", pid, "task", pid, "children"))
	if err != nil {
		return err
	}
	for _, text := range strings.Fields(string(children)) {
		if id, err := strconv.Atoi(text); err == nil {
			_ = syscall.Kill(id, sig) // it may have ended by itself
		}
	}
	return nil
}

// Close kills the server and removes its folder.
func (s *Server) Close() {
	_ = s.Resume()
	s.Stop()
	os.RemoveAll(s.dir)
}
