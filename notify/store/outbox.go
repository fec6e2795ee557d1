package store

import (
	"context"
	"time"
)

// An Ending is a message that ended, on its way to an archive.
type Ending struct {
	Entry    string // its id in the outbox, which grows
	Member   string
	State    string // dead, dropped, acked or removed
	Ended    time.Time
	Reason   string // why it died or was dropped
	Attempts int    // used up
	History  []Attempt
	Result   []byte // of one that was acknowledged; nil: none
	Raw      string // the whole record, if Fault is set
	Record
	Fault error // an ErrRecord if the record is unreadable or missing
}

// A Backlog is how far an archive is behind.
type Backlog struct {
	Entries int       // in the outbox
	Oldest  time.Time // when the first of them ended; zero: there is none
	Removed int64     // entries that the housekeeping removed before they were archived, ever
	Open    bool      // an archive is registered
	Since   time.Time // since when
}

// OpenArchive registers an archive: from now on what ends goes into the outbox, which
// holds up to room entries. It may be repeated. The error is that of the connection.
func (s Shard) OpenArchive(ctx context.Context, room int) error { return errNotBuilt }

// CloseArchive takes the registration back, and removes the outbox. It returns how many
// entries that had. The error is that of the connection.
func (s Shard) CloseArchive(ctx context.Context) (removed int, err error) { return 0, errNotBuilt }

// Endings returns up to limit entries of the outbox, oldest first, and fewer if they
// have more than some megabytes. The error is that of the connection.
func (s Shard) Endings(ctx context.Context, limit int) ([]Ending, error) { return nil, errNotBuilt }

// Archived removes the entries of the outbox up to one. It may be repeated. The error is
// that of the connection.
func (s Shard) Archived(ctx context.Context, upto string) error { return errNotBuilt }

// Backlog returns how far the archive is behind. The error is that of the connection.
func (s Shard) Backlog(ctx context.Context) (Backlog, error) { return Backlog{}, errNotBuilt }
