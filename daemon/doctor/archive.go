package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/bellhopd/bellhop/daemon/archive"
	"github.com/bellhopd/bellhop/notify/store"
)

// archive reports whether the database of the archive can be used, and how far that is
// behind.
func (e *exam) archive(ctx context.Context) {
	const check = "archive"
	behind, err := e.backlog(ctx)
	if err != nil {
		e.report(check, Warn, err.Error(), "see the check of rights above")
		return
	}
	if e.o.Archive.URL == "" {
		if behind.Open {
			e.report(check, Warn, "off here, but the store has one: "+waiting(behind), "set BELLHOP_ARCHIVE_URL; if there is to be none any more: bellhop archive close")
			return
		}
		e.report(check, OK, "off", "")
		return
	}
	db, err := archive.New(e.store, e.o.Archive)
	if err != nil {
		e.report(check, Fail, err.Error(), "check BELLHOP_ARCHIVE_URL and BELLHOP_ARCHIVE_PASSWORD_FILE")
		return
	}
	defer db.Close()
	err = db.Ping(ctx)
	switch {
	case errors.Is(err, archive.ErrNoSchema), err == nil && !behind.Open:
		e.report(check, Warn, db.Address()+" is up, and no daemon archives there: "+waiting(behind), "start one with BELLHOP_ARCHIVE_URL: bellhop serve. Its log says what hinders it")
	case err != nil:
		e.report(check, Fail, fmt.Sprintf("away: %v; %s", err, waiting(behind)), fmt.Sprintf("%s: Redis keeps the last %d for it", cmp.Or(Remedy(err), "have the database work again"), e.o.Archive.Room))
	case behind.Waits > tooLate:
		e.report(check, Warn, db.Address()+" is up, and behind: "+waiting(behind), "see the log of the elected daemon, and the check of the carrier above")
	default:
		e.report(check, OK, db.Address()+" is up: "+waiting(behind), "")
	}
}

// backlog returns how far the archive is behind in all shards. It does not found the store.
func (e *exam) backlog(ctx context.Context) (sum store.Backlog, err error) {
	if founded, err := e.founded(ctx); err != nil || !founded {
		return sum, err
	}
	sum, err = e.store.Backlog(ctx)
	return sum, there(err)
}

// waiting describes a backlog.
func waiting(b store.Backlog) string {
	text := fmt.Sprintf("%d wait", b.Entries)
	if !b.Oldest.IsZero() {
		text += ", the oldest for " + rough(b.Waits)
	}
	if b.Removed > 0 {
		text += fmt.Sprintf("; %d were removed before they were archived, ever", b.Removed)
	}
	return text
}
