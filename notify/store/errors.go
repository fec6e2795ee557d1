package store

import "errors"

// ErrInvalid is the error of an input that is outside its grammar or limits; nothing was changed.
var ErrInvalid = errors.New("invalid")
