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

// A Watch configures a sentinel.
type Watch struct {
	Name      string        // of the master
	Master    *Server       // the first master
	Quorum    int           // how many sentinels must find the master down
	DownAfter time.Duration // without an answer for this long the master is down
}

// Sentinel starts a Redis Sentinel and waits until it answers. The errors are those of Start.
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
	var config strings.Builder // the sentinel writes its state into the file
	fmt.Fprintf(&config, "port %d\nbind 127.0.0.1\ndir %s\n", o.Port, o.Dir)
	fmt.Fprintf(&config, "sentinel monitor %s %s %s %d\n", w.Name, host, port, w.Quorum)
	fmt.Fprintf(&config, "sentinel down-after-milliseconds %s %d\n", w.Name, w.DownAfter.Milliseconds())
	file := filepath.Join(o.Dir, "sentinel.conf")
	if err := os.WriteFile(file, []byte(config.String()), 0o600); err != nil {
		return nil, fmt.Errorf("write the configuration of a sentinel: %w", err)
	}
	return start(ctx, o, append([]string{file, "--sentinel"}, o.Args...))
}
