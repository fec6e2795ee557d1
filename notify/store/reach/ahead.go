package reach

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify/store/script"
)

var joinedScript = script.New("joined")

// A Call is one of a transition that only reads.
type Call struct {
	of   *script.Transition
	args []any
}

// Asks returns a call.
func Asks(of *script.Transition, args ...any) Call { return Call{of, args} }

// name names a call of a shard.
func (c Call) name(shard int) string { return fmt.Sprint(shard, " ", c.of.Name, " ", c.args) }

// answersKey is the key of a context's answers.
type answersKey struct{}

// answers are those of a context, by the names of their calls.
type answers struct {
	mu sync.Mutex
	of map[string]answer
}

// An answer is what a transition answered, or why it could not be asked.
type answer struct {
	values []any
	err    error
}

// Ahead makes calls of some shards, those of a shard in one, and returns a context in which Run has their answers, each once: they stand as
// they were. What is not answered so, such as all calls where Redis runs scripts in place of functions, Run makes by itself, and reports what
// is wrong.
func Ahead(ctx context.Context, shards []Shard, calls func(Shard) []Call) context.Context {
	before, _ := ctx.Value(answersKey{}).(*answers)
	all := answers{of: make(map[string]answer)}
	AtOnce(len(shards), func(i int) {
		left := slices.DeleteFunc(calls(shards[i]), func(c Call) bool { return before.has(c.name(shards[i].Number())) })
		some := shards[i].joined(ctx, left)
		all.mu.Lock()
		defer all.mu.Unlock()
		maps.Copy(all.of, some)
	})
	if before != nil {
		before.mu.Lock()
		defer before.mu.Unlock()
		maps.Copy(all.of, before.of)
	}
	return context.WithValue(ctx, answersKey{}, &all)
}

// has reports whether there is an answer to a call.
func (a *answers) has(name string) (is bool) {
	if a != nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		_, is = a.of[name]
	}
	return is
}

// answered takes what the context has of a call of the shard: who asks again is to see what changed.
func (s Shard) answered(ctx context.Context, c Call) (one answer, is bool) {
	if a, there := ctx.Value(answersKey{}).(*answers); there {
		name := c.name(s.Number())
		a.mu.Lock()
		defer a.mu.Unlock()
		one, is = a.of[name]
		delete(a.of, name)
	}
	return one, is
}

// joined makes calls in one, and returns the answers that it has: where Redis cannot be reached, that to all.
func (s Shard) joined(ctx context.Context, calls []Call) map[string]answer {
	d, err := s.resolve(ctx)
	if err != nil || len(calls) == 0 || !d.hasFunctions(ctx) {
		return nil
	}
	var args []any
	for _, c := range calls {
		args = append(append(args, c.of.InLibrary(), len(c.args)), c.args...)
	}
	reply, err := d.run(ctx, joinedScript, nil, args)
	all := make(map[string]answer)
	for i, c := range calls {
		name := c.name(s.Number())
		switch {
		case err == nil && i < len(reply.Raw()):
			if values, is := reply.Raw()[i].([]any); is { // else it is the error of that call
				all[name] = answer{values: values}
			}
		case isAway(err):
			all[name] = answer{err: err}
		}
	}
	return all
}

// hasFunctions reports whether the shard's server runs transitions as functions, as far as is known.
func (d *shard) hasFunctions(ctx context.Context) bool {
	has, err := onNode(ctx, d, func(node redis.UniversalClient) (bool, error) { return d.wayTo(node).refusal() == nil, nil })
	return err == nil && has && d.fit.Load() != fitTrial
}
