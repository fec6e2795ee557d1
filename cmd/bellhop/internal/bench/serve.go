package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/child"
	"github.com/bellhopd/bellhop/notify/store"
)

// startWithin is how long a daemon may take until it carries and serves HTTP.
const startWithin = 20 * time.Second

// served is a bellhop serve in a process of its own.
type served struct {
	*child.Process
	address string       // of HTTP
	printed bytes.Buffer // read once the process has ended
}

// serve starts a daemon for a store, and waits until it is elected and serves HTTP.
func serve(ctx context.Context, o Options, c notify.Config, db *notify.Store) (*served, error) {
	d := &served{address: o.address}
	var err error
	d.Process, err = child.Start(child.Program{
		Path: o.Program, Args: []string{"serve"}, Name: "bellhop serve", Env: environment(o.Env, c, o.address), Output: &d.printed,
	})
	if err != nil {
		return nil, err
	}
	err = d.Await(ctx, startWithin, func(ctx context.Context) error { return d.ready(ctx, db) })
	switch {
	case err == nil:
		return d, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	return nil, d.withPrinted(err)
}

// ready returns an error unless the daemon is elected and serves HTTP.
func (d *served) ready(ctx context.Context, db *notify.Store) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.address+"/healthz", nil)
	if err != nil {
		return err
	}
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		return errors.New("it does not serve http") // the error of the connection would be taken for one to Redis
	}
	response.Body.Close()
	elected, err := store.Gather(ctx, db, func(ctx context.Context, shard store.Shard) (bool, error) {
		status, err := carrier.Look(ctx, shard)
		return status.Name != "", err
	})
	if err != nil || slices.Contains(elected, false) {
		return errors.Join(err, errors.New("it is not elected"))
	}
	return nil
}

// withPrinted adds to an error what the daemon printed before it ended.
func (d *served) withPrinted(err error) error {
	if printed := strings.TrimSpace(d.printed.String()); printed != "" {
		return fmt.Errorf("%w; it printed:\n%s", err, printed)
	}
	return err
}

// during calls f, and ends its context if the daemon ends meanwhile.
func (d *served) during(ctx context.Context, f func(context.Context) error) error {
	running, stop := context.WithCancel(ctx)
	defer stop()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-d.Done():
			stop()
		case <-running.Done():
		}
	}()
	err := f(running)
	stop()
	<-watched
	select {
	case <-d.Done():
		return d.withPrinted(errors.New("bellhop serve ended by itself"))
	default:
		return err
	}
}

// foreign are variables that concern this process, or another service of systemd.
var foreign = []string{"NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "CREDENTIALS_DIRECTORY"}

// environment returns the environment of a daemon for the Redis of c that serves HTTP
// at an address. Of the settings in env only those of Redis are left, as c has them.
func environment(env []string, c notify.Config, address string) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return strings.HasPrefix(name, "BELLHOP_") || slices.Contains(foreign, name)
	})
	number := func(n int, unit string) string {
		if n == 0 {
			return ""
		}
		return strconv.Itoa(n) + unit
	}
	for _, setting := range []struct{ name, value string }{
		{"REDIS_URL", c.URL},
		{"REDIS_MASTER", c.Master},
		{"REDIS_USERNAME", c.Username},
		{"REDIS_PASSWORD_FILE", c.PasswordFile},
		{"REDIS_SENTINEL_USERNAME", c.SentinelUsername},
		{"REDIS_SENTINEL_PASSWORD_FILE", c.SentinelPasswordFile},
		{"REDIS_CA_FILE", c.CAFile},
		{"REDIS_CERT_FILE", c.CertFile},
		{"REDIS_KEY_FILE", c.KeyFile},
		{"PREFIX", c.Prefix},
		{"SHARDS", number(c.Shards, "")},
		{"WAIT_REPLICAS", number(c.WaitReplicas, "")},
		{"MEMORY_SHARE", number(c.MemoryShare, "%")},
		{"LISTEN", address},
		{"LOG_LEVEL", "error"},
	} {
		if setting.value != "" {
			env = append(env, "BELLHOP_"+setting.name+"="+setting.value)
		}
	}
	return env
}
