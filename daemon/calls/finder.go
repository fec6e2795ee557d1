package calls

import (
	"context"
	"time"

	"github.com/bellhopd/bellhop/daemon/signing"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/find"
	"github.com/bellhopd/bellhop/notify/store/fault"
)

// A Finder finds messages for the clients of all gateways of a process. A cursor says where
// in the store a search is, which may be in a topic that the client must not see: a client
// of some topics gets it sealed.
type Finder struct {
	finder *find.Finder
	secret *signing.Secret
}

// newFinder returns a finder of the messages of a store.
func newFinder(s *notify.Store) (*Finder, error) {
	finder, err := find.New(s)
	if err != nil {
		return nil, err
	}
	return &Finder{finder: finder, secret: signing.New(s)}, nil
}

const cursorUse = "cursor of a search"

// Find is [find.Finder.Find], with a sealed cursor if o.May is set.
func (f *Finder) Find(ctx context.Context, q find.Query, o find.Options) (page find.Page, err error) {
	if err := f.open(ctx, &o); err != nil {
		return page, err
	}
	page, err = f.finder.Find(ctx, q, o)
	if fault := f.seal(ctx, &page.Cursor, o); fault != nil {
		return find.Page{}, fault
	}
	return page, err
}

// Act is [find.Finder.Act], with a sealed cursor if o.May is set. It does nothing if it could not seal that.
func (f *Finder) Act(ctx context.Context, q find.Query, act find.Act, o find.Options, dryRun bool) (done find.Acted, err error) {
	if err := f.open(ctx, &o); err != nil {
		return done, err
	}
	if o.May != nil {
		if _, err := f.secret.Get(ctx); err != nil { // from now on it is known, even if Redis fails meanwhile
			return done, err
		}
	}
	done, err = f.finder.Act(ctx, q, act, o, dryRun)
	if fault := f.seal(ctx, &done.Cursor, o); fault != nil {
		err = fault // beside what is done
	}
	return done, err
}

// Paced is [find.Finder.Paced].
func (f *Finder) Paced(ctx context.Context, call func(context.Context) error) (took time.Duration, err error) {
	return f.finder.Paced(ctx, call)
}

// open replaces the cursor of options by what is sealed in it. The error is a notify.Fault,
// or that of the connection.
func (f *Finder) open(ctx context.Context, o *find.Options) error {
	if o.May == nil || o.Cursor == "" {
		return nil
	}
	cursor, known, err := f.secret.Open(ctx, cursorUse, o.Cursor)
	if err == nil && !known {
		err = fault.New("cursor", "cursor %.100q: it is none of a search by this client, or older than the secret of the store; use the cursor of the answer before, or none to begin", o.Cursor)
	}
	o.Cursor = cursor
	return err
}

// seal replaces a cursor, which is empty if it cannot be sealed.
func (f *Finder) seal(ctx context.Context, cursor *string, o find.Options) (err error) {
	if o.May != nil && *cursor != "" {
		*cursor, err = f.secret.Seal(ctx, cursorUse, *cursor)
	}
	return err
}
