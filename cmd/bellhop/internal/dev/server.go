package dev

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/bellhopd/bellhop/notify/servers/child"
	"github.com/bellhopd/bellhop/notify/servers/memory"
	"github.com/bellhopd/bellhop/notify/servers/redisserver"
	"github.com/bellhopd/bellhop/notify/store/reach"
)

// A server is a private Redis or NATS.
type server interface {
	URL() string
	About() string         // where it is, in words
	Done() <-chan struct{} // closed when the server ended by itself
	Stop()
}

// A redis is a private Redis.
type redis interface {
	server
	Dir() string // folder of the data; empty: none
}

const usualPort = 6379

// start starts a redis-server if it is installed and goes by the clock of this host, else a Redis in memory, which cannot hold
// several shards. The error is a fault.Fault of a number of shards that no store has.
func start(ctx context.Context, o Options, shards int) (redis, error) {
	if shards != 0 {
		if err := reach.CheckShards(shards); err != nil {
			return nil, err
		}
	}
	_, err := redisserver.Program()
	switch {
	case o.Clock == Manual:
		return startTrial("with a clock that stands still", o.At)
	case errors.Is(err, redisserver.ErrNotInstalled) && shards > 1:
		return nil, fmt.Errorf("%w: a Redis in memory holds one shard, not %d", err, shards)
	case errors.Is(err, redisserver.ErrNotInstalled):
		return startTrial("since redis-server is not on PATH", time.Time{})
	case err != nil:
		return nil, err
	}
	return startKeeper(ctx, o.Dir)
}

// free returns port if a server can start there, else zero.
func free(port int) int {
	if child.Hold(port) != nil {
		return 0
	}
	return port
}

// keeper is a redis-server with its data in a folder.
type keeper struct {
	*redisserver.Server
	dir  string
	log  *os.File
	lock int
}

// DefaultDir returns the default folder of the data: bellhop/dev under
// $XDG_STATE_HOME, or under ~/.local/state.
func DefaultDir() (string, error) {
	state := os.Getenv("XDG_STATE_HOME")
	if state == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("find a folder for the data: %w; name one with --dir", err)
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "bellhop", "dev"), nil
}

func startKeeper(ctx context.Context, dir string) (_ redis, err error) {
	if dir == "" {
		if dir, err = DefaultDir(); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder for the data: %w", err)
	}
	c := &keeper{dir: dir}
	if c.lock, err = lock(filepath.Join(dir, "lock")); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			c.release()
		}
	}()
	path := filepath.Join(dir, "redis.log")
	if c.log, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
		return nil, fmt.Errorf("open the log of redis-server: %w", err)
	}
	c.Server, err = redisserver.Start(ctx, redisserver.Options{
		Dir: dir, Port: free(usualPort), Args: []string{"--appendonly", "yes"}, Output: c.log,
	})
	if err != nil {
		return nil, fmt.Errorf("%w; see %s", err, path)
	}
	return c, nil
}

// lock locks a folder and returns the open lock file. Two servers would destroy a
// shared append-only file. The child inherits the file, so that the folder stays
// locked as long as either process lives.
func lock(path string) (int, error) {
	fd, err := syscall.Open(path, syscall.O_RDWR|syscall.O_CREAT, 0o600)
	if err != nil {
		return 0, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	if err := syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		syscall.Close(fd)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return 0, fmt.Errorf("folder %s is in use by another bellhop dev: end that one, or name another folder with --dir", filepath.Dir(path))
		}
		return 0, &fs.PathError{Op: "lock", Path: path, Err: err}
	}
	return fd, nil
}

// Dir returns the folder of the data.
func (c *keeper) Dir() string { return c.dir }

func (c *keeper) About() string {
	return fmt.Sprintf("redis-server on %s, data and log in %s", c.Addr(), c.dir)
}

// Stop stops the server and unlocks the folder.
func (c *keeper) Stop() {
	c.Server.Stop()
	c.release()
}

func (c *keeper) release() {
	if c.log != nil {
		c.log.Close()
	}
	syscall.Close(c.lock)
}

// trial is a Redis in memory, inside this process.
type trial struct {
	*memory.Server
	why string
}

// startTrial starts a Redis in memory, whose clock stands at a time; zero: it goes.
func startTrial(why string, at time.Time) (redis, error) {
	t := trial{memory.New(), why}
	t.Set(at)
	if err := t.Listen(free(usualPort)); err != nil {
		return nil, err
	}
	return t, nil
}

func (t trial) About() string {
	return fmt.Sprintf("in memory on %s, %s: MESSAGES VANISH when this ends", t.Addr(), t.why)
}

// Dir is empty: the data is in memory.
func (t trial) Dir() string { return "" }

// Done is never closed, since the server is part of this process.
func (t trial) Done() <-chan struct{} { return nil }
