// Package natsserver runs a private nats-server on loopback as a child of this
// process, for bellhop dev and the benchmark. The server is not linked into
// this program, since that would make it half as large again.
package natsserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/notify/servers/child"
)

// ErrNotInstalled is returned by Start when no nats-server is on PATH.
var ErrNotInstalled = errors.New("nats-server is not on PATH; install it, on Debian with: apt-get install nats-server")

const (
	startTimeout  = 10 * time.Second
	answerTimeout = time.Second
)

// Options are the options of Start.
type Options struct {
	Dir    string    // folder of the streams; required
	Port   int       // on 127.0.0.1; zero: a free one
	Output io.Writer // receives the log; nil: discarded
}

// A Server is a running nats-server, with JetStream.
type Server struct {
	*child.Process
	o Options
}

// Start starts a nats-server and waits until it answers. The error is
// ErrNotInstalled, or why the server does not start.
func Start(ctx context.Context, o Options) (*Server, error) {
	path, err := exec.LookPath("nats-server")
	if err != nil {
		return nil, ErrNotInstalled
	}
	if o.Port == 0 {
		if o.Port, err = child.HoldPort(); err != nil {
			return nil, err
		}
	}
	name := fmt.Sprintf("bellhop-%d-%d", o.Port, time.Now().UnixNano())
	s := &Server{o: o}
	s.Process, err = child.Start(child.Program{
		Path: path, Name: "nats-server on " + s.Addr(), Output: o.Output,
		Args: []string{"--addr", "127.0.0.1", "--port", strconv.Itoa(o.Port), "--name", name, "--jetstream", "--store_dir", o.Dir},
	})
	if err != nil {
		return nil, err
	}
	err = s.Await(ctx, startTimeout, func(context.Context) error {
		conn, err := nats.Connect(s.URL(), nats.NoReconnect(), nats.Timeout(answerTimeout))
		if err != nil {
			return err
		}
		defer conn.Close()
		if conn.ConnectedServerName() != name {
			return errors.New("another server answers there")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Addr returns HOST:PORT.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.o.Port)) }

// URL returns the address as a URL for clients.
func (s *Server) URL() string { return "nats://" + s.Addr() }
