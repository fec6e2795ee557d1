package reach

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify/store/script"
)

// libraryKept is how long a library of another version is kept that nobody uses.
const libraryKept = 3 * 24 * time.Hour

// Functions is how a server runs transitions.
type Functions struct {
	Refused error         // why it runs them as scripts, which takes longer; nil: they are functions
	Others  int           // libraries of other versions
	Used    time.Duration // how long ago the last of those was used
}

// Functions returns how the shard's server runs transitions, after a look at its library, which it loads if
// that is not there. Without the right to list libraries Others is zero. The error is that of the connection.
func (s Shard) Functions(ctx context.Context) (f Functions, err error) {
	err = s.onServer(ctx, func(d *shard, node redis.UniversalClient) error {
		w := d.wayTo(node)
		w.doubt(w.looks.Load())
		if _, err := d.look(ctx, node, w); err != nil {
			return err
		}
		if w.refusal() == nil {
			err := node.FCall(context.WithValue(ctx, asFunction{}, true), script.LibraryName()+"_idle", nil).Err()
			if refuses(err, "'fcall'") || isForeign(err) {
				w.refuse(err)
			}
		}
		others, err := otherLibraries(ctx, node)
		f = Functions{Refused: w.refusal(), Others: len(others)}
		if len(others) > 0 {
			f.Used = slices.MinFunc(slices.Collect(maps.Values(others)), func(a, b another) int { return cmp.Compare(a.idle, b.idle) }).idle
		}
		return err
	})
	return f, err
}

// DropLibraries deletes the libraries of other versions from the shard's server that nobody has used
// for libraryKept, and returns their names: none where its user may not do that, or while memory is
// full, since one that is missed could not be loaded again. The error is that of the connection, or a
// LibraryError.
func (s Shard) DropLibraries(ctx context.Context) (dropped []string, err error) {
	memory, err := s.Memory(ctx)
	if err != nil || memory.IsFull() {
		return nil, err
	}
	var refused error
	err = s.onServer(ctx, func(d *shard, node redis.UniversalClient) error {
		if refused = d.wayTo(node).refusal(); isForeign(refused) {
			return nil
		}
		dropped, err = dropLibraries(ctx, node)
		return err
	})
	if isForeign(refused) {
		return nil, refused
	}
	return dropped, err
}

func dropLibraries(ctx context.Context, node redis.UniversalClient) (dropped []string, err error) {
	others, err := otherLibraries(ctx, node)
	for name, o := range others {
		if o.idle < libraryKept {
			continue
		}
		if err := node.FunctionDelete(ctx, name).Err(); err != nil {
			return dropped, err
		}
		dropped = append(dropped, name)
	}
	return dropped, err
}

// Loaded is what LoadFunctions did at a server.
type Loaded struct {
	Server  string   // its address
	Loaded  bool     // the library was not there
	Deleted []string // libraries of other versions, which nobody had used for libraryKept
}

// LoadFunctions loads the library of this version into each server that may hold shards, and deletes
// those of other versions that nobody uses. It needs the rights of [LoadRights] alone. The error is that
// of the first server that fails, such as a LibraryError; what was done before is beside it.
func (s *Redis) LoadFunctions(ctx context.Context) (all []Loaded, err error) {
	ctx = context.WithValue(ctx, unrehearsed{}, true)
	servers, err := s.Servers(ctx)
	for _, server := range servers {
		if server.IsReplica {
			continue
		}
		one := Loaded{Server: server.Address}
		if one.Loaded, err = provide(ctx, server.node, load); err == nil {
			one.Deleted, err = dropLibraries(ctx, server.node)
		}
		if err != nil {
			return all, fmt.Errorf("functions of %s: %w", server.Address, err)
		}
		all = append(all, one)
	}
	return all, err
}

// onServer calls f with the server of a shard, unless that is the trial server, which has no functions.
// That the user may not use some of them, or that the server does not know them, is no error.
func (s Shard) onServer(ctx context.Context, f func(*shard, redis.UniversalClient) error) error {
	d, err := s.resolve(ctx)
	if err != nil {
		return err
	}
	if err := d.ensureFit(ctx); err != nil || d.fit.Load() == fitTrial {
		return err
	}
	_, err = onNode(ctx, d, func(node redis.UniversalClient) (struct{}, error) { return struct{}{}, f(d, node) })
	if err == nil || refuses(err, "'f") || isUnknown(err) {
		return nil
	}
	return d.explain(ctx, err)
}

// An another is the library of another version.
type another struct {
	idle   time.Duration // how long ago it was called
	newest int           // format that the version works with
}

// otherLibraries returns the libraries of other versions, by their names. It skips those that do not say when they were called, and what only
// has such a name.
func otherLibraries(ctx context.Context, node redis.UniversalClient) (map[string]another, error) {
	all, err := node.FunctionList(ctx, redis.FunctionListQuery{LibraryNamePattern: script.LibrariesAre + "*", WithCode: true}).Result()
	if err != nil {
		return nil, err
	}
	others := make(map[string]another)
	for _, one := range all {
		if one.Name == script.LibraryName() || !script.IsLibrary(one.Name, one.Code) {
			continue // its name has not the hash of its text: nobody knows what it does
		}
		seconds, err := node.FCall(ctx, one.Name+"_idle", nil).Int64()
		if err == nil {
			others[one.Name] = another{time.Duration(seconds) * time.Second, newestOf(one.Code)}
		} else if !refusal(err, []string{"Function not found"}) && !strings.Contains(err.Error(), one.Name) {
			return nil, err
		}
	}
	return others, nil
}
