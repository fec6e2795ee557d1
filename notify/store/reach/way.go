package reach

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify/store/script"
)

// loadAgain is when a server that did not take the library is asked again.
const loadAgain = 10 * time.Second

// A way is how a server runs transitions: as functions of the library, or as scripts while it does
// not take that: its memory is full, or its user lacks a right.
type way struct {
	mu      sync.Mutex   // held while the library is loaded
	loaded  atomic.Int64 // how often it was
	refused atomic.Pointer[refusedLoad]
}

// A refusedLoad is why a server runs scripts, and until when.
type refusedLoad struct {
	err   error
	until time.Time
}

// ways are those of the servers of a store, by address; without a Cluster there is one, without a name.
type ways struct{ all sync.Map }

// to returns the way to a server.
func (all *ways) to(address string) *way {
	if w, ok := all.all.Load(address); ok {
		return w.(*way)
	}
	w, _ := all.all.LoadOrStore(address, new(way))
	return w.(*way)
}

// refusal returns why the server runs scripts; nil if it is to run functions.
func (w *way) refusal() error {
	if refused := w.refused.Load(); refused != nil && time.Now().Before(refused.until) {
		return refused.err
	}
	return nil
}

// refuse has the server run scripts for a while.
func (w *way) refuse(err error) { w.refused.Store(&refusedLoad{err, time.Now().Add(loadAgain)}) }

// load loads the library, unless another call has since there were so many loads. The error is that
// of the connection; nil if the server does not take the library.
func (w *way) load(ctx context.Context, node redis.UniversalClient, loads int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.loaded.Load() > loads || w.refusal() != nil {
		return nil
	}
	err := node.FunctionLoad(ctx, script.LibraryText()).Err()
	switch {
	case err == nil, refusal(err, []string{"Library '" + script.LibraryName() + "' already exists"}):
		w.refused.Store(nil)
		w.loaded.Add(1)
		return nil
	case redis.HasErrorPrefix(err, "OOM"), refuses(err, "'function|load'"), isUnknown(err):
		w.refuse(err)
		return nil
	}
	return err
}

// refuses reports whether err says that the user may not call a command.
func refuses(err error, command string) bool {
	return redis.HasErrorPrefix(err, "NOPERM") && strings.Contains(err.Error(), command)
}

// isUnknown reports whether err says that the server does not know a command, or a sub-command.
func isUnknown(err error) bool {
	return refusal(err, []string{"unknown command", "unknown subcommand"})
}
