package store

import "github.com/bellhopd/bellhop/notify/store/fault"

// Option returns the options given to a constructor or a call, or the zero value if
// they were left out. More than one are a Fault.
func Option[T any](given []T) (o T, err error) {
	switch len(given) {
	case 0:
		return o, nil
	case 1:
		return given[0], nil
	}
	return o, fault.New("options", "options: %d are given; give one, or none", len(given))
}

// CheckStore returns a Fault for a nil store, which no constructor accepts.
func CheckStore(s *Store) error {
	if s == nil {
		return fault.New("store", "store: it is nil; give one that Open returned")
	}
	return nil
}
