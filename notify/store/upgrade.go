package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/reach"
)

// An Upgrade is what a newer format of the store would bring, and whom it would shut out.
type Upgrade struct {
	From, To int
	Adds     []string // what may be used from then on
	Old      []Worker // that are there, and do not work with the new format
	Called   bool     // a program of an older version made a call within a minute, which may be another one than Old
	Ago      time.Duration
	Unasked  bool // who makes calls could not be learned: Redis runs scripts
}

// ErrFormat is the error of a call that is refused until all programs work with a newer format of the store.
var ErrFormat = reach.ErrFormat

// LookAtUpgrade returns what Upgrade would do. Errors: an ErrUnfit for a store of a format that this version does not know, a RightsError,
// or that of the connection.
func (s *Store) LookAtUpgrade(ctx context.Context) (u Upgrade, err error) {
	if err := s.Check(ctx); err != nil {
		return u, err
	}
	if u.From, err = s.FormatOf(ctx); err != nil {
		return u, err
	}
	u.To = reach.Newest().Number
	for _, format := range s.After(u.From) {
		u.Adds = append(u.Adds, format.Adds)
	}
	if u.From == u.To {
		return u, nil
	}
	workers, err := s.Home().Workers(ctx)
	if err != nil {
		return u, err
	}
	u.Old = slices.DeleteFunc(workers, func(w Worker) bool { return len(w.Via) > 0 || w.Format >= u.To })
	var all bool
	u.Ago, u.Called, all, err = s.CalledLately(ctx, u.To)
	u.Unasked = !all
	return u, err
}

// Upgrade gives the store the newest format that this version works with. Programs of older versions are refused from then on, and there is
// no way back but an export. The error is an ErrFormat, and nothing is changed, while such programs are there, unless they are to be shut out;
// or that of LookAtUpgrade. Broken off, Upgrade is made again.
func (s *Store) Upgrade(ctx context.Context, shutOut bool) (Upgrade, error) {
	u, err := s.LookAtUpgrade(ctx)
	if err != nil || u.From == u.To {
		return u, err
	}
	if there := u.Refused(); len(there) > 0 && !shutOut {
		return u, fmt.Errorf("%w: %d, and %d would shut out %s; replace them, or shut them out with yes", ErrFormat, u.From, u.To, strings.Join(there, ", "))
	}
	return u, s.Raise(ctx)
}

// Refused names the programs that the new format would shut out.
func (u Upgrade) Refused() (all []string) {
	for _, w := range u.Old {
		all = append(all, fmt.Sprintf("%s (%s, %s, since %s)", w.Name, w.Kind, w.Version, w.Since.UTC().Format(time.DateTime)))
	}
	if u.Called {
		all = append(all, fmt.Sprintf("an older version, which made a call %s ago", fault.Short(u.Ago)))
	}
	return all
}
