package reach

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify/store/script"
)

// lookAgain is when a server whose library could not be used is asked again.
const lookAgain = 10 * time.Second

// A way is how a server runs transitions: as functions of the library, or as scripts while it has
// none that may be used: its memory is full, its user lacks a right, or the library is foreign.
type way struct {
	check   *fitCheck    // the last look; guarded by background.mu
	looks   atomic.Int64 // how often the library was found to be this version's; negative: another look is due
	refused atomic.Pointer[refusedWay]
	denied  atomic.Pointer[error] // the user may not load the library; nil: that is unknown, as behind each new connection
}

// A refusedWay is why a server runs scripts, and until when.
type refusedWay struct {
	err   error
	until time.Time
}

// A LibraryError reports a library of functions that has the name of this version's, and another text.
// What it does would be done with the rights of this process, so its functions are not called.
type LibraryError struct{ Name string }

func (e *LibraryError) Error() string {
	return fmt.Sprintf("functions: somebody replaced the library %s, so calls run as scripts; %s", e.Name, e.Remedy())
}

// Remedy returns what the operator does about it.
func (e *LibraryError) Remedy() string {
	return "run FUNCTION DELETE " + e.Name + " and bellhop functions load, and take +function|load and +function|restore from all other users"
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

// doubt has the library of each server looked at before it is used again.
func (all *ways) doubt() {
	all.all.Range(func(_, w any) bool {
		one := w.(*way)
		one.denied.Store(nil)
		one.doubt(one.looks.Load())
		return true
	})
}

// doubt makes another look due, unless there was one since there were so many.
func (w *way) doubt(looks int64) {
	if looks > 0 {
		w.looks.CompareAndSwap(looks, -looks)
	}
}

// refusal returns why the server runs scripts; nil if it is to run functions.
func (w *way) refusal() error {
	if refused := w.refused.Load(); refused != nil && time.Now().Before(refused.until) {
		return refused.err
	}
	return nil
}

// refuse has the server run scripts for a while.
func (w *way) refuse(err error) {
	w.doubt(w.looks.Load())
	w.refused.Store(&refusedWay{err, time.Now().Add(lookAgain)})
}

// look looks at the library of a server if that is due, and returns how many looks there were. Callers share one that is under way, which
// outlasts them: the text is long. The error is that of the connection; nil if the server has no library that may be used.
func (d *shard) look(ctx context.Context, node redis.UniversalClient, w *way) (looks int64, err error) {
	isDone := func() bool { return w.looks.Load() > 0 || w.refusal() != nil }
	if !isDone() {
		err = d.shared(ctx, &w.check, isDone, func(ctx context.Context) error { return w.look(ctx, node) })
	}
	return w.looks.Load(), err
}

func (w *way) look(ctx context.Context, node redis.UniversalClient) error {
	switch _, err := provide(ctx, node, w.load); {
	case hasNone(err):
		w.refuse(err)
	case err != nil:
		return err
	default:
		w.refused.Store(nil)
		w.looks.Store(1 - w.looks.Load())
	}
	return nil
}

// hasNone reports whether err says that a server has no library that may be used.
func hasNone(err error) bool {
	return isForeign(err) || redis.HasErrorPrefix(err, "OOM") || refuses(err, "'function|") || isUnknown(err) || isThere(err)
}

// load loads the library, whose text is long. A user who may not do that does not send it again: somebody else has to load it.
func (w *way) load(ctx context.Context, node redis.UniversalClient) error {
	if denied := w.denied.Load(); denied != nil {
		return *denied
	}
	err := load(ctx, node)
	if refuses(err, "'function|load'") {
		w.denied.Store(&err)
	}
	return err
}

func load(ctx context.Context, node redis.UniversalClient) error {
	return node.FunctionLoad(ctx, script.LibraryText()).Err()
}

// provide has the library loaded into a server that has none of its name, and reports whether it was. What was
// there is this version's to the letter, or the error is a LibraryError.
func provide(ctx context.Context, node redis.UniversalClient, load func(context.Context, redis.UniversalClient) error) (loaded bool, err error) {
	for range 3 { // others may load and delete it meanwhile
		var there bool
		if there, err = find(ctx, node); there || err != nil {
			return false, err
		}
		if err = load(ctx, node); !isThere(err) {
			return err == nil, err
		}
	}
	return false, err
}

// find reports whether a server has the library. One of its name with another text is a LibraryError.
func find(ctx context.Context, node redis.ScriptingFunctionsCmdable) (there bool, err error) {
	all, err := node.FunctionList(ctx, redis.FunctionListQuery{LibraryNamePattern: script.LibraryName(), WithCode: true}).Result()
	if err == nil && len(all) > 0 && all[0].Code != script.LibraryText() {
		err = &LibraryError{script.LibraryName()}
	}
	return len(all) > 0, err
}

// asFunction marks the context of a call of a function.
type asFunction struct{}

// recognize looks at the library on a new connection that is made for a call of a function: the connection may lead to another server, and
// the function is called next. Other connections make another look due.
func (s *Redis) recognize(ctx context.Context, conn *redis.Conn) error {
	if ctx.Value(asFunction{}) == nil {
		s.ways.doubt()
		return nil
	}
	if _, err := find(ctx, conn); isForeign(err) {
		return err
	}
	return nil
}

// isForeign reports whether err is a LibraryError.
func isForeign(err error) bool {
	_, is := errors.AsType[*LibraryError](err)
	return is
}

// isThere reports whether err says that the server has a library of that name.
func isThere(err error) bool {
	return refusal(err, []string{"Library '" + script.LibraryName() + "' already exists"})
}

// refuses reports whether err says that the user may not call a command, given with the quotes around its name.
func refuses(err error, command string) bool {
	return redis.HasErrorPrefix(err, "NOPERM") && strings.Contains(err.Error(), command)
}

// isUnknown reports whether err says that the server does not know a command, or a sub-command.
func isUnknown(err error) bool {
	return refusal(err, []string{"unknown command", "unknown subcommand"})
}
