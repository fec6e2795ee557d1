package database

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Conditions of PostgreSQL, from its manual's list of error codes.
const (
	NoSchema    = "3F000"
	NoTable     = "42P01"
	NoRight     = "42501"
	LockTimeout = "55P03"
	ReadOnly    = "25006" // the server became a replica
)

// An Error is an error of the database, or of the connection to it, in one line, with what
// was to be done. The driver's errors have no passwords.
type Error struct {
	doing, remedy string
	err           error
}

// Failed returns an Error of a database with what was to be done, and with the remedy of
// its condition, if it has one. An Error stays as it is, and nil is none.
func Failed(doing string, err error, remedies map[string]string) error {
	if err == nil || IsError(err) {
		return err
	}
	return &Error{doing, remedies[Condition(err)], err}
}

// Error returns one line.
func (e *Error) Error() string {
	text := e.doing + ": " + lined{e.err}.Error()
	if e.remedy != "" {
		text += "; " + e.remedy
	}
	return text
}

// Unwrap returns the error of the driver.
func (e *Error) Unwrap() error { return e.err }

// IsError reports whether an error is an Error.
func IsError(err error) bool {
	var known *Error
	return errors.As(err, &known)
}

// LockedOut reports whether the database refuses the user or the password.
func LockedOut(err error) bool { return strings.HasPrefix(Condition(err), "28") }

// Condition returns the code of the database's error; empty if it is no such error.
func Condition(err error) string {
	if refused, is := errors.AsType[*pgconn.PgError](err); is {
		return refused.Code
	}
	return ""
}

// A lined is an error whose text is one line: those of the driver have one for each address
// that it tried.
type lined struct{ error }

// Error returns the line.
func (l lined) Error() string { return strings.Join(strings.Fields(l.error.Error()), " ") }

// Unwrap returns the error.
func (l lined) Unwrap() error { return l.error }
