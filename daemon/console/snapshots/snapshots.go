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

// New returns the snapshots of a store, of which it reads nothing yet.
func New(store *notify.Store, inspector *notify.Inspector) *Snapshots {
	return &Snapshots{
		surveyKept:  surveyKept{inspector: inspector},
		countsKept:  countsKept{store: store, inspector: inspector},
		officesKept: officesKept{store: store},
		serversKept: serversKept{store: store},
	}
}
