// Package redisserver runs a private redis-server as a child of this process,
// on loopback: for tests, which want a real Redis, and for bellhop dev.
package redisserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrNotInstalled is the error where no redis-server is on PATH.
var ErrNotInstalled = errors.New("redis-server is not on PATH; install it, on Debian with: apt-get install redis-server")

const (
	startTimeout = 20 * time.Second // loading a large append-only file takes some
	stopTimeout  = 20 * time.Second

	answerTimeout = 200 * time.Millisecond // after which it is asked again whether it is there
)

// Options are the options of Start.
type Options struct {
	Dir    string    // where it keeps its data; required
	Port   int       // on 127.0.0.1; zero: a free one
	Args   []string  // more arguments, such as "--appendonly", "yes"
	Output io.Writer // its log; nil: thrown away
}

// A Server is a running redis-server.
type Server struct {
	o    Options
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
	err  error         // of the process; read after done
}

// Start starts a redis-server and waits until it answers. Errors:
// ErrNotInstalled, or why it does not start.
func Start(ctx context.Context, o Options) (*Server, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, ErrNotInstalled
	}
	if o.Port == 0 {
		if o.Port, err = freePort(); err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
	}
	args := append([]string{
		"--bind", "127.0.0.1", "--port", strconv.Itoa(o.Port), "--dir", o.Dir, "--save", "",
	}, o.Args...)
	s := &Server{o: o, cmd: exec.Command(path, args...), done: make(chan struct{})}
	s.cmd.Stdout, s.cmd.Stderr = o.Output, o.Output
	s.cmd.SysProcAttr = childAttributes()
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start redis-server: %w", err)
	}
	go func() {
		s.err = s.cmd.Wait()
		close(s.done)
	}()
	if err := s.await(ctx); err != nil {
		s.Kill()
		return nil, err
	}
	return s, nil
}

// await waits until the server answers: this one, not another at its port.
func (s *Server) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	client := redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1, DisableIdentity: true, ReadTimeout: answerTimeout})
	defer client.Close()
	itself := fmt.Sprintf("process_id:%d\r\n", s.cmd.Process.Pid)
	for {
		info, err := client.Info(ctx, "server").Result()
		if strings.Contains(info, itself) || redis.HasErrorPrefix(err, "NOAUTH") {
			return nil
		}
		select {
		case <-s.done:
			return fmt.Errorf("redis-server on %s ended at once: %w", s.Addr(), errors.Join(s.err, err))
		case <-ctx.Done():
			return fmt.Errorf("redis-server on %s does not answer: %w", s.Addr(), err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Addr returns HOST:PORT.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.o.Port)) }

// URL returns the address as notify.Config wants it.
func (s *Server) URL() string { return "redis://" + s.Addr() }

// Done is closed when the process has ended.
func (s *Server) Done() <-chan struct{} { return s.done }

// Signal sends the process a signal.
func (s *Server) Signal(sig os.Signal) error { return s.cmd.Process.Signal(sig) }

// Stop ends the process in good order, and kills it if that takes too long.
func (s *Server) Stop() {
	_ = s.Signal(syscall.SIGTERM) // it may have ended by itself
	select {
	case <-s.done:
	case <-time.After(stopTimeout):
		s.Kill()
	}
}

// Kill kills the process, as kill -9 does, and waits for its end.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill() // it may have ended by itself
	<-s.done
}

// Restart starts a server again with the same options, at the same address,
// after Stop or Kill.
func (s *Server) Restart(ctx context.Context) (*Server, error) { return Start(ctx, s.o) }

// freePort asks the kernel for a port that nobody uses at the moment.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
