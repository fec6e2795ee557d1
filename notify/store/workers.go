package store

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/script"
)

var (
	arriveScript  = script.New("arrive")
	departScript  = script.New("depart")
	workersScript = script.New("workers")
	inHandScript  = script.New("in_hand")
)

// A Worker is a daemon, a worker or a listener that is there.
type Worker struct {
	ID      string // of its subscription
	Name    string // as its operator calls it; empty: HOST-PID
	Host    string
	Version string
	Kind    string // daemon, worker or listener
	Topics  []string
	Names   []string  // under which it listens
	Since   time.Time // by Redis's clock
	Format  int       // the newest that its version works with

	// Via are the names of the daemons that it claims through, over HTTP or NATS; it has no
	// connection, host and version of its own.
	Via []string

	Callers []Caller // workers that claim through it; Workers returns them as workers
}

// A Caller is a worker that claims through another program, under a name of its own.
type Caller struct {
	Name   string
	Topics []string
	Since  time.Time // by the clock of that program
}

// entry is a worker as Redis holds it, beside its id.
type entry struct {
	Name    string   `json:"name"`
	Host    string   `json:"host"`
	Version string   `json:"version"`
	Kind    string   `json:"kind"`
	Topics  []string `json:"topics"`
	Names   []string `json:"names,omitempty"`
	Since   int64    `json:"since,omitempty"` // in ms
	Format  int      `json:"format"`
	Now     int64    `json:"now,omitempty"` // when it was noted, in ms

	Callers []callerEntry `json:"callers,omitempty"`
}

// beginningOf returns what the entries of the workers of a name begin with: it is their first field.
func beginningOf(name string) (string, error) {
	text, err := json.Marshal(name)
	return `{"name":` + string(text) + ",", err
}

type callerEntry struct {
	Name   string   `json:"name"`
	Topics []string `json:"topics"`
	For    int64    `json:"for"` // ms that it was there when it was noted
}

// Arrive notes a worker that is subscribed to its channel Here, or what changed of it. It
// returns the id of the store and the epoch of the last election: where a beat has others,
// Redis may have lost the entry. The error is that of the connection.
func (s Shard) Arrive(ctx context.Context, w Worker) (id string, epoch int64, err error) {
	e := entry{Name: w.Name, Host: w.Host, Version: w.Version, Kind: w.Kind, Topics: append([]string{}, w.Topics...), Names: w.Names, Format: reach.Newest().Number}
	for _, c := range w.Callers {
		e.Callers = append(e.Callers, callerEntry{c.Name, c.Topics, time.Since(c.Since).Milliseconds()})
	}
	text, err := json.Marshal(e)
	if err != nil {
		return "", 0, err
	}
	r, err := s.Run(ctx, arriveScript, w.ID, string(text))
	if err != nil {
		return "", 0, err
	}
	id, epoch = r.Text(), r.Integer()
	return id, epoch, r.End()
}

// Depart forgets a worker. The error is that of the connection.
func (s Shard) Depart(ctx context.Context, id string) error {
	r, err := s.Run(ctx, departScript, id)
	if err != nil {
		return err
	}
	_ = r.Integer()
	return r.End()
}

// addCallers adds the callers of an entry to workers by their names: one that claims
// through several daemons is one worker.
func (e *entry) addCallers(id string, all map[string]Worker) {
	for _, c := range e.Callers {
		w := Worker{ID: id + "/" + c.Name, Name: c.Name, Kind: "worker", Topics: c.Topics, Since: time.UnixMilli(e.Now - c.For), Via: []string{e.Name}}
		if other, is := all["/"+c.Name]; is {
			w.ID = min(w.ID, other.ID)
			w.Topics = merged(w.Topics, other.Topics)
			w.Via = merged(w.Via, other.Via)
			if other.Since.Before(w.Since) {
				w.Since = other.Since
			}
		}
		all["/"+c.Name] = w // no id begins so
	}
}

// merged returns what is in either of two lists, sorted.
func merged(a, b []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
}

// Workers returns the workers that are there, by name. One that died is left out, also
// before the housekeeping forgets it. The error is that of the connection.
func (s Shard) Workers(ctx context.Context) ([]Worker, error) {
	found, callers := make(map[string]Worker), make(map[string]Worker)
	for cursor := "0"; ; {
		r, err := s.Run(ctx, workersScript, cursor, scanPage)
		if err != nil {
			return nil, err
		}
		for cursor = r.Text(); r.More(); {
			id, text := r.Text(), r.Text()
			var e entry
			if json.Unmarshal([]byte(text), &e) == nil { // else it is foreign
				found[id] = Worker{ID: id, Name: e.Name, Host: e.Host, Version: e.Version, Kind: e.Kind, Topics: e.Topics, Names: e.Names, Since: time.UnixMilli(e.Since), Format: e.Format}
				e.addCallers(id, callers)
			}
		}
		if err := r.End(); err != nil {
			return nil, err
		}
		if cursor == "0" {
			maps.Copy(found, callers)
			return slices.SortedFunc(maps.Values(found), func(a, b Worker) int {
				return cmp.Or(cmp.Compare(a.Name, b.Name), a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID))
			}), nil
		}
	}
}
