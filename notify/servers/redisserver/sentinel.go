package redisserver

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify/servers/child"
)

// A Watch is what a sentinel does.
type Watch struct {
	Name      string        // of the master
	Master    *Server       // which it is at first
	Quorum    int           // of sentinels that must find it down
	DownAfter time.Duration // without an answer it is down
}

// Sentinel starts a Redis Sentinel and waits until it answers. Errors as Start's.
func Sentinel(ctx context.Context, o Options, w Watch) (*Server, error) {
	var err error
	if o.Port == 0 {
		if o.Port, err = child.HoldPort(); err != nil {
			return nil, err
		}
	}
	host, port, err := net.SplitHostPort(w.Master.Addr())
	if err != nil {
		return nil, err
	}
	var config strings.Builder // which it writes its state to
	fmt.Fprintf(&config, "port %d\nbind 127.0.0.1\ndir %s\n", o.Port, o.Dir)
	fmt.Fprintf(&config, "sentinel monitor %s %s %s %d\n", w.Name, host, port, w.Quorum)
	fmt.Fprintf(&config, "sentinel down-after-milliseconds %s %d\n", w.Name, w.DownAfter.Milliseconds())
	file := filepath.Join(o.Dir, "sentinel.conf")
	if err := os.WriteFile(file, []byte(config.String()), 0o600); err != nil {
		return nil, fmt.Errorf("write the configuration of a sentinel: %w", err)
	}
	return start(ctx, o, append([]string{file, "--sentinel"}, o.Args...))
}
