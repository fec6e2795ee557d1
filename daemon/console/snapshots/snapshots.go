// Package snapshots keeps what pages show of Redis at present for all viewers: each for a second or a few, and read by
// one of them while the others wait.
package snapshots

import "github.com/bellhopd/bellhop/notify"

// Snapshots are those of a store.
type Snapshots struct {
	surveyKept
	countsKept
	officesKept
	serversKept
}

// Forget has a topic counted again at once, and the store with it.
func (s *Snapshots) Forget(topic string) {
	s.countsKept.forget(topic)
	s.whole.Forget()
}

// ForgetAll has the store and all its topics counted again at once.
func (s *Snapshots) ForgetAll() {
	s.countsKept.forgetAll()
	s.whole.Forget()
}

// New returns the snapshots of a store, of which it reads nothing yet.
func New(store *notify.Store, inspector *notify.Inspector) *Snapshots {
	return &Snapshots{
		surveyKept:  surveyKept{store: store, inspector: inspector},
		countsKept:  countsKept{store: store, inspector: inspector},
		officesKept: officesKept{store: store},
		serversKept: serversKept{store: store},
	}
}
