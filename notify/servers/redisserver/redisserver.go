// Package redisserver runs a private redis-server on loopback as a child of this
// process, for tests and bellhop dev.
package redisserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify/servers/child"
)

// ErrNotInstalled is returned when no redis-server is on PATH.
var ErrNotInstalled = errors.New("redis-server is not on PATH; install it, on Debian with: apt-get install redis-server")

// Variable is the environment variable that names the program to run in place of
// redis-server, such as valkey-server: a name on PATH, or a path.
const Variable = "REDIS_SERVER"

const (
	startTimeout  = 20 * time.Second       // loading a large append-only file takes a while
	answerTimeout = 200 * time.Millisecond // of one of the calls that wait for the start
)

// Options are the options of Start.
type Options struct {
	Dir    string    // folder of the data; required
	Port   int       // on 127.0.0.1; zero: one that this process holds
	Args   []string  // more arguments, such as "--appendonly", "yes"
	Under  []string  // a command that executes the server's command line, such as "nice", "-n", "10"; empty: none
	Output io.Writer // receives the log; nil: discarded
	TLS    *TLS      // nil: plain TCP

	bus int // port of the cluster bus
}

// A Server is a running redis-server.
type Server struct {
	*child.Process
	o Options
}

// Program returns the path of the program that Start runs: redis-server, or the one
// that Variable names. The error is ErrNotInstalled, or that the named program does
// not exist.
func Program() (string, error) {
	named := os.Getenv(Variable)
	path, err := exec.LookPath(cmp.Or(named, "redis-server"))
	switch {
	case err == nil:
		return path, nil
	case named == "":
		return "", ErrNotInstalled
	}
	return "", fmt.Errorf("%s: there is no program %q; name one on PATH, or give its full path: %w", Variable, named, err)
}

// Start starts a redis-server and waits until it answers. The error is that of
// Program, or why the server does not start.
func Start(ctx context.Context, o Options) (*Server, error) {
	var err error
	if o.Port == 0 {
		if o.Port, err = child.HoldPort(); err != nil {
			return nil, err
		}
	}
	listen := []string{"--port", strconv.Itoa(o.Port)}
	if o.TLS != nil {
		listen = o.TLS.arguments(o.Port)
	}
	return start(ctx, o, append(append(listen,
		"--bind", "127.0.0.1", "--dir", o.Dir, "--save", "",
		"--repl-diskless-sync-delay", "0", // replicas get their copy at once
	), o.Args...))
}

// start starts the program and waits until it answers.
func start(ctx context.Context, o Options, args []string) (*Server, error) {
	path, err := Program()
	if err != nil {
		return nil, err
	}
	s := &Server{o: o}
	command := slices.Concat(o.Under, []string{path}, args)
	s.Process, err = child.Start(child.Program{Path: command[0], Args: command[1:], Name: "redis-server on " + s.Addr(), Output: o.Output})
	if err != nil {
		return nil, err
	}
	if err := s.await(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// await waits until this server answers, and not another one at its port.
func (s *Server) await(ctx context.Context) error {
	secure, err := s.o.TLS.config()
	if err != nil {
		return err
	}
	client := redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1, DisableIdentity: true, ReadTimeout: answerTimeout, TLSConfig: secure})
	defer client.Close()
	itself := fmt.Sprintf("process_id:%d\r\n", s.Pid())
	return s.Await(ctx, startTimeout, func(ctx context.Context) error {
		info, err := client.Info(ctx, "server").Result()
		switch {
		case strings.Contains(info, itself):
			return client.Ping(ctx).Err() // answered only when the data is loaded
		case redis.HasErrorPrefix(err, "NOAUTH"):
			return nil
		case err != nil:
			return err
		}
		return errors.New("another server answers there")
	})
}

// Replica starts a replica of the server and waits until it holds all data of the
// server. The errors are those of Start.
func (s *Server) Replica(ctx context.Context, o Options) (*Server, error) {
	host, port, err := net.SplitHostPort(s.Addr())
	if err != nil {
		return nil, err
	}
	o.Args = append([]string{"--replicaof", host + " " + port}, o.Args...)
	replica, err := Start(ctx, o)
	if err != nil {
		return nil, err
	}
	err = replica.Await(ctx, startTimeout, func(ctx context.Context) error {
		return ask(ctx, replica, func(client *redis.Client) error {
			info, err := client.Info(ctx, "replication").Result()
			if err == nil && !strings.Contains(info, "master_link_status:up") {
				err = errors.New("it is not connected to its master")
			}
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return replica, nil
}

// Addr returns HOST:PORT.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.o.Port)) }

// URL returns the address in the form of notify.Config.URL.
func (s *Server) URL() string {
	if s.o.TLS != nil {
		return "rediss://" + s.Addr()
	}
	return "redis://" + s.Addr()
}

// Follow makes the server a replica of the one at host and port, or with NO and ONE a master.
func (s *Server) Follow(ctx context.Context, host, port string) error {
	return ask(ctx, s, func(client *redis.Client) error { return client.ReplicaOf(ctx, host, port).Err() })
}

// Restart starts the server again, with the same options and at the same address,
// after Stop or Kill.
func (s *Server) Restart(ctx context.Context) (*Server, error) { return Start(ctx, s.o) }
