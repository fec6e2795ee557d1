package dev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/bellhopd/bellhop/notify/servers/natsserver"
)

const usualNATSPort = 4222

// bus is a nats-server with a folder for its streams.
type bus struct {
	*natsserver.Server
	log *os.File
	dir string // a temporary folder, removed at the end; empty: the data is kept
}

// startNATS starts a nats-server with its data in dir, or in a temporary folder if dir
// is empty. If nats-server is not installed, it returns nil.
func startNATS(ctx context.Context, dir string) (b *bus, err error) {
	b = &bus{}
	defer func() {
		if err != nil {
			b.release()
			b = nil
		}
	}()
	if dir == "" {
		if dir, err = os.MkdirTemp("", "bellhop-dev-"); err != nil {
			return b, fmt.Errorf("make a folder for nats-server: %w", err)
		}
		b.dir = dir
	}
	path := filepath.Join(dir, "nats.log")
	if b.log, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
		return b, fmt.Errorf("open the log of nats-server: %w", err)
	}
	b.Server, err = natsserver.Start(ctx, natsserver.Options{Dir: filepath.Join(dir, "nats"), Port: free(usualNATSPort), Output: b.log})
	switch {
	case errors.Is(err, natsserver.ErrNotInstalled):
		b.release()
		return nil, nil
	case err != nil:
		return b, fmt.Errorf("%w; see %s", err, path)
	}
	return b, nil
}

// About returns where the server is.
func (b *bus) About() string { return "nats-server on " + b.Addr() }

// Stop stops the server.
func (b *bus) Stop() {
	b.Server.Stop()
	b.release()
}

func (b *bus) release() {
	if b.log != nil {
		b.log.Close()
	}
	if b.dir != "" {
		os.RemoveAll(b.dir)
	}
}
