package store

import "github.com/oklog/ulid/v2"

// NewID returns a new id: a ULID, 26 characters that sort by time
// (https://github.com/ulid/spec), ascending within a process.
func NewID() string { return ulid.Make().String() }
