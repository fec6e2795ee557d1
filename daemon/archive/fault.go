package archive

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// ErrNoSchema is the error of a database that no daemon has archived to yet.
var ErrNoSchema = errors.New("the database has no archive yet: a daemon with BELLHOP_ARCHIVE_URL makes it when it is elected")

// ErrNewer is the error of a schema that a newer version of this program made. Nothing
// was written.
var ErrNewer = errors.New("its schema bellhop is of a newer version of this program; update this one")

// Conditions of PostgreSQL, from its manual's list of error codes.
const (
	noSchema       = "3F000"
	noTable        = "42P01"
	noRight        = "42501"
	noPartition    = "23514" // a check violation: no partition takes the row
	overlaps       = "42P17" // an invalid definition: another partition takes such rows
	lockTimeout    = "55P03"
	canceled       = "57014" // by statement_timeout
	readOnly       = "25006" // the server became a replica
	noStatement    = "26000" // another session has the prepared one
	hasStatement   = "42P05" // another session's is prepared in this one
	unsupported    = "0A000" // such as a prepared statement whose table was changed
	dataException  = "22"    // a class: a value that the database cannot hold
	limitsExceeded = "54"    // a class, such as a key that is too long for an index
)

// A databaseError is an error of the database in one line, with what was to be done. The
// driver's errors have no passwords.
type databaseError struct {
	doing string
	err   error
}

// Error returns one line.
func (e *databaseError) Error() string {
	text := e.doing + ": " + oneLine(e.err).Error()
	switch conditionOf(e.err) {
	case noRight:
		text += "; see the rights in the README of the archive"
	case canceled:
		text += "; ask for less: a shorter time, a topic, or an id"
	case lockTimeout:
		text += "; something else, such as a backup, uses the archive: try again"
	}
	return text
}

// Unwrap returns the error of the driver.
func (e *databaseError) Unwrap() error { return e.err }

// failedTo returns an error of the database with what was to be done, nil for none.
func (a *Archive) failedTo(doing string, err error) error {
	var known *databaseError
	switch {
	case err == nil, errors.As(err, &known):
		return err
	case conditionOf(err) == noTable, conditionOf(err) == noSchema:
		return fmt.Errorf("archive at %s: %w", a.Address(), ErrNoSchema)
	}
	return &databaseError{fmt.Sprintf("archive at %s: %s", a.Address(), doing), err}
}

// OfDatabase reports whether an error is one of the database of an archive, or of the connection to it.
func OfDatabase(err error) bool {
	var known *databaseError
	return errors.As(err, &known)
}

// LockedOut reports whether the database refuses the user or the password.
func LockedOut(err error) bool { return strings.HasPrefix(conditionOf(err), "28") }

// conditionOf returns the code of the database's error; empty if it is no such error.
func conditionOf(err error) string {
	if refused, is := errors.AsType[*pgconn.PgError](err); is {
		return refused.Code
	}
	return ""
}

// isAboutValue reports whether an error is about a value that the database cannot hold, and not
// about the database.
func isAboutValue(err error) bool {
	code := conditionOf(err)
	return strings.HasPrefix(code, dataException) || strings.HasPrefix(code, limitsExceeded)
}

// isAboutConnection reports whether an error is one that a new connection may cure.
func isAboutConnection(err error) bool {
	return slices.Contains([]string{readOnly, noStatement, hasStatement, unsupported}, conditionOf(err))
}

// A lined is an error whose text is one line.
type lined struct{ error }

// Error returns the line.
func (l lined) Error() string { return strings.Join(strings.Fields(l.error.Error()), " ") }

// Unwrap returns the error.
func (l lined) Unwrap() error { return l.error }

// oneLine returns an error whose text is one line: those of the driver have one for each
// address that it tried.
func oneLine(err error) error { return lined{err} }
