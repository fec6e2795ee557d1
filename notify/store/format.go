package store

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Format is the number of the layout of what a store holds in Redis. It grows
// with each change of that layout: a process works with a store of its own
// format alone, and refuses any other.
//
// 2: topics have indexes by name, by what is ready, by deaths, by pauses and by
// traffic, and counters of all.
//
// 3: the line of a record begins with its times, among them when it is first due; a
// topic has a record of settings.
const Format = 3

var (
	//go:embed lua/found.lua
	foundSource string
	lookScript  = redis.NewScript(foundSource) // which the trial server takes, too
	foundScript = redis.NewScript("#!lua flags=allow-oom\n" + foundSource)

	formatName = rowNamed("FORMAT").name    // what the key is called behind the base
	formatMark = strconv.Itoa(Format) + " " // what the key begins with in a store of this format
)

// Signs with which a script answers that it did not run: see linked.head.
const (
	signNoStore = "NOSTORE"
	signFormat  = "FORMAT"
)

// found marks an empty Redis as a store of this format, with an id that no
// other store has; or only looks, and leaves it empty. A store that there is
// already stays as it is. The error is an ErrUnfit for one of another format, or
// that of the connection.
func (s *Store) found(ctx context.Context, node redis.UniversalClient, look bool) error {
	script, apply := foundScript, 1
	if look {
		apply = 0
	}
	if look || s.fit.Load() == fitTrial {
		script = lookScript
	}
	reply, err := script.Run(ctx, node, s.keys.founding(), formatMark+NewID(), apply).Text()
	if err != nil {
		return err
	}
	if !strings.HasPrefix(reply, formatMark) {
		return s.otherFormat(reply)
	}
	return nil
}

// CheckFormat refuses a store of another format, and leaves a Redis without a
// store as it is. A transition does so by itself; this is for calls that are none.
// The error is an ErrUnfit, or that of the connection.
func (s *Store) CheckFormat(ctx context.Context) error {
	_, err := onNode(ctx, s, func(node redis.UniversalClient) (struct{}, error) {
		return struct{}{}, s.found(ctx, node, true)
	})
	if err != nil && !errors.Is(err, ErrUnfit) {
		return s.explain(ctx, err)
	}
	return err
}

// otherFormat returns the error for a store of another format, of which the key
// holds the text; it is empty for a store from before formats had numbers.
func (s *Store) otherFormat(text string) error {
	format, _, _ := strings.Cut(text, " ")
	if format == "" {
		return fmt.Errorf("%w at %s: what it holds under the prefix %s is of a version from before formats had numbers (this one works with format %d); "+
			"let that version deliver what is left, and use another prefix with this one", ErrUnfit, s.where, s.keys.prefix, Format)
	}
	return fmt.Errorf("%w at %s: what it holds under the prefix %s has format %.20s, and this version of Bellhop works with format %d; "+
		"export it with the version that wrote it, then publish the export with this one under another prefix",
		ErrUnfit, s.where, s.keys.prefix, format, Format)
}

// formatFault returns what such an answer means: whether there is no
// store yet, and the error for a store of another format.
func (s *Store) formatFault(err error) (missing bool, fault error) {
	if redis.HasErrorPrefix(err, signNoStore) {
		return true, nil
	}
	if redis.HasErrorPrefix(err, signFormat) {
		_, text, _ := strings.Cut(err.Error(), " ")
		return false, s.otherFormat(text)
	}
	return false, err
}
