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

// Format is the number of the layout of a store's keys in Redis. It grows with
// each change of that layout: a process works only with a store of its own format,
// and refuses any other.
//
// 2: topics have indexes by name, by what is ready, by deaths, by pauses and by
// traffic, and counters of all.
//
// 3: a record begins with its times, among them the due time of its first attempt;
// a topic has a record of settings.
//
// 4: a receipt may be that of a hand-over, and a waiting list says who was handed a
// message.
//
// 5: a record may begin with a +, or be that of an id that stays taken; extras and taken.
//
// 6: attempts with their history, claims, workers, messages that succeeded and are kept,
// hooks and the outbox of an archive.
const Format = 6

var (
	//go:embed lua/found.lua
	foundSource      string
	plainFoundScript = redis.NewScript(foundSource) // for the trial server, too, which knows no flags
	foundScript      = redis.NewScript("#!lua flags=allow-oom\n" + foundSource)

	formatName = rowNamed("FORMAT").name    // the name of the key behind the base
	formatMark = strconv.Itoa(Format) + " " // the beginning of its value in a store of this format
)

// The errors of a script that did not run: see linked.head.
const (
	signNoStore = "NOSTORE"
	signFormat  = "FORMAT"
)

// found marks an empty Redis as a store of this format, with an id that no other
// store has; if readOnly is set it leaves Redis empty. An existing store stays as
// it is. The error is an ErrUnfit if that has another format, or that of the
// connection.
func (s *Store) found(ctx context.Context, node redis.UniversalClient, readOnly bool) error {
	script, apply := foundScript, 1
	if readOnly {
		apply = 0
	}
	if readOnly || s.fit.Load() == fitTrial {
		script = plainFoundScript
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

// CheckFormat returns an ErrUnfit for a store of another format, or the error of
// the connection. It leaves a Redis without a store as it is. A transition checks
// the format itself; CheckFormat is for calls that run no script.
func (s *Store) CheckFormat(ctx context.Context) error {
	_, err := onNode(ctx, s, func(node redis.UniversalClient) (struct{}, error) {
		return struct{}{}, s.found(ctx, node, true)
	})
	if err != nil && !errors.Is(err, ErrUnfit) {
		return s.explain(ctx, err)
	}
	return err
}

// otherFormat returns the ErrUnfit for a store of another format. text is the
// value of its key, empty for a store from before formats had numbers.
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

// formatFault reports whether a script answered that there is no store yet. It
// returns an ErrUnfit if a script answered that the store has another format, and
// any other error as it is.
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
