package archive

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bellhopd/bellhop/daemon/database"
)

// ErrNoSchema is the error of a database that no daemon has archived to yet.
var ErrNoSchema = errors.New("the database has no archive yet: a daemon with BELLHOP_ARCHIVE_URL makes it when it is elected")

// ErrNewer is the error of a schema that a newer version of this program made. Nothing
// was written.
var ErrNewer = errors.New("its schema bellhop is of a newer version of this program; update this one")

// Conditions of PostgreSQL that are the archive's alone, from its manual's list of error codes.
const (
	noPartition    = "23514" // a check violation: no partition takes the row
	overlaps       = "42P17" // an invalid definition: another partition takes such rows
	canceled       = "57014" // by statement_timeout
	noStatement    = "26000" // another session has the prepared one
	hasStatement   = "42P05" // another session's is prepared in this one
	unsupported    = "0A000" // such as a prepared statement whose table was changed
	dataException  = "22"    // a class: a value that the database cannot hold
	limitsExceeded = "54"    // a class, such as a key that is too long for an index
)

// remedies are those of conditions.
var remedies = map[string]string{
	database.NoRight:     "see the rights in the README of the archive",
	canceled:             "ask for less: a shorter time, a topic, or an id",
	database.LockTimeout: "something else, such as a backup, uses the archive: try again",
}

// failedTo returns an error of the database with what was to be done, nil for none.
func (a *Archive) failedTo(doing string, err error) error {
	if condition := database.Condition(err); !database.IsError(err) && (condition == database.NoTable || condition == database.NoSchema) {
		return fmt.Errorf("archive at %s: %w", a.Address(), ErrNoSchema)
	}
	return database.Failed(fmt.Sprintf("archive at %s: %s", a.Address(), doing), err, remedies)
}

// isAboutValue reports whether an error is about a value that the database cannot hold, and not
// about the database.
func isAboutValue(err error) bool {
	code := database.Condition(err)
	return strings.HasPrefix(code, dataException) || strings.HasPrefix(code, limitsExceeded)
}

// isAboutConnection reports whether an error is one that a new connection may cure.
func isAboutConnection(err error) bool {
	return slices.Contains([]string{database.ReadOnly, noStatement, hasStatement, unsupported}, database.Condition(err))
}
