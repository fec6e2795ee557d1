// Package redisserver runs a private redis-server as a child of this process,
// on loopback: for tests, which want a real Redis, and for bellhop dev.
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

// ErrNotInstalled is the error where no redis-server is on PATH.
var ErrNotInstalled = errors.New("redis-server is not on PATH; install it, on Debian with: apt-get install redis-server")

// Variable is the environment variable that names another program to run than
// redis-server, such as valkey-server: a name that is on PATH, or a path.
const Variable = "REDIS_SERVER"

const (
	startTimeout  = 20 * time.Second       // loading a large append-only file takes some
	answerTimeout = 200 * time.Millisecond // after which it is asked again whether it is there
)

// Options are the options of Start.
type Options struct {
	Dir    string    // where it keeps its data; required
	Port   int       // on 127.0.0.1; zero: one that this process holds
	Args   []string  // more arguments, such as "--appendonly", "yes"
	Under  []string  // a command that becomes it, given its own command behind, such as "nice", "-n", "10"; none: it is started itself
	Output io.Writer // its log; nil: thrown away
	TLS    *TLS      // nil: it speaks plain TCP

	bus int // port at which the nodes of a cluster meet
}

// A Server is a running redis-server.
type Server struct {
	*child.Process
	o Options
}

// Program returns the path of the program that Start runs: redis-server, or
// what Variable names. Errors: ErrNotInstalled, or that there is no such program.
func Program() (string, error) {
	named := os.Getenv(Variable)
	path, err := exec.LookPath(cmp.Or(named, "redis-server"))
	switch {
	case err == nil:
		return path, nil
	case named == "":
		return "", ErrNotInstalled
	}
	return "", fmt.Errorf("%s: no program to run is %q; name one that is on PATH, or give its whole path: %w", Variable, named, err)
}

// Start starts a redis-server and waits until it answers. Errors: those of
// Program, or why it does not start.
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
		"--repl-diskless-sync-delay", "0", // a replica gets its copy at once
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

// await waits until the server answers: this one, not another at its port.
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
			return client.Ping(ctx).Err() // which it answers when it has loaded what it holds
		case redis.HasErrorPrefix(err, "NOAUTH"):
			return nil
		case err != nil:
			return err
		}
		return errors.New("another server answers there")
	})
}

// Replica starts a replica of the server and waits until it has all that the
// server holds. Errors as Start's.
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

// URL returns the address as notify.Config wants it.
func (s *Server) URL() string {
	if s.o.TLS != nil {
		return "rediss://" + s.Addr()
	}
	return "redis://" + s.Addr()
}

// Restart starts a server again with the same options, at the same address,
// after Stop or Kill.
func (s *Server) Restart(ctx context.Context) (*Server, error) { return Start(ctx, s.o) }
