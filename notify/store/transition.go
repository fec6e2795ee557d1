package store

import (
	"context"
	"strings"
)

// A transition is one change of what a shard holds, or one read of it: a function of the
// library. Its source is lua/NAME.lua.
type transition struct {
	name     string // for Store.Observe
	function string // in the library, behind its name
	promised bool   // its answer is a promise, which Config.WaitReplicas replicas must confirm
	grows    bool   // it makes Redis hold more, and is refused before Redis is full
}

// transitions are all of them, by the names of their files.
var transitions = make(map[string]*transition)

// option changes a transition.
type option func(*transition)

// promised marks a transition whose answer, such as that a message is published or
// acknowledged, waits for Config.WaitReplicas replicas.
func promised(t *transition) { t.promised = true }

// grows marks a transition that is refused as a whole: with ErrFull when Redis is
// full or nearly so, and with ErrUnfit while Redis may evict messages. All others
// run even when Redis is out of memory, since they must not stop half way: moving,
// acknowledging and removing frees more memory than it takes.
func grows(t *transition) { t.grows = true }

// script returns the transition of lua/NAME.lua. [Store.Observe] reports
// lua/repair/places.lua as repair-places.
func script(name string, options ...option) *transition {
	t := &transition{name: strings.ReplaceAll(name, "/", "-"), function: luaName(name)}
	for _, o := range options {
		o(t)
	}
	transitions[name] = t
	return t
}

// run runs a transition once, and returns a cursor over its answer. It never repeats
// a call whose outcome is unknown. Errors: an ErrUnfit, a RightsError, an
// ErrUnreplicated if the transition is promised, or that of the connection.
func (s Shard) run(ctx context.Context, t *transition, args ...any) (*reply, error) {
	return s.runOn(ctx, t, nil, args...)
}

// repeat is run for a transition that may be carried out twice: for up to retryFor
// it repeats a call that Redis did not carry out.
func (s Shard) repeat(ctx context.Context, t *transition, args ...any) (*reply, error) {
	return retry(ctx, func() (*reply, error) { return s.run(ctx, t, args...) })
}

// runOn is run for a transition that works on a key of the caller's choice.
func (s Shard) runOn(ctx context.Context, t *transition, key func(Keys) string, args ...any) (*reply, error) {
	d, err := s.resolve(ctx)
	if err != nil {
		return nil, err
	}
	return d.run(ctx, t, key, args)
}

// run is Shard.runOn. An Inbox among the arguments is sent as its channel.
func (d *shard) run(ctx context.Context, t *transition, key func(Keys) string, args []any) (*reply, error) {
	keys := append(make([]string, 0, 2), d.keys.format)
	if key != nil {
		keys = append(keys, key(d.keys))
	}
	if d.inCluster() {
		keys = append(keys, d.keys.given()...)
	}
	for i, arg := range args {
		if inbox, is := arg.(Inbox); is {
			args[i] = d.inbox(inbox)
		}
	}
	values, err := d.call(ctx, t, keys, append(args, d.head))
	if err != nil {
		return nil, err
	}
	return &reply{name: t.name, values: values}, nil
}
