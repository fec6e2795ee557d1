package archive

import (
	"context"
	"sync"
)

// mostWriters is how many shards are archived at a time, over a connection each.
const mostWriters = 4

// writers are the writers of the terms of all shards. At rest one keeps its connection.
type writers struct {
	free chan struct{} // holds one element for each writer in use

	mu    sync.Mutex
	terms int     // that run
	idle  *writer // with a connection; nil: none
}

// begin notes that a term runs until end is called. Without a term no connection stays.
func (w *writers) begin() (end func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.terms++
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.terms--; w.terms == 0 && w.idle != nil {
			w.idle.close()
			w.idle = nil
		}
	}
}

// take waits for a writer, best one with a connection. The error is that of ctx.
func (w *writers) take(ctx context.Context, a *Archive) (*writer, error) {
	select {
	case w.free <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if one := w.idle; one != nil {
		w.idle = nil
		return one, nil
	}
	return &writer{Archive: a}, nil
}

// give takes a writer back. It closes the connection, unless no other idles.
func (w *writers) give(one *writer) {
	defer func() { <-w.free }()
	w.mu.Lock()
	if w.idle == nil && one.conn != nil {
		one.idled = true
		w.idle, one = one, nil
	}
	w.mu.Unlock()
	if one != nil {
		one.close()
	}
}
