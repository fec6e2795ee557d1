package outage

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// summed is how long records of one message are summed up, once the first few were logged.
const summed = time.Second

// The keys of what a record says of its shard, and why.
const (
	shardKey = "shard"
	errorKey = "error"
)

// A Summary keeps what happens to all shards at once from flooding the log: of the records
// of a message that name a shard the first few are logged, and a second later one that names
// the shards of the others. It is safe for concurrent use.
type Summary struct {
	log *slog.Logger
	few int

	mu  sync.Mutex
	all map[string]*sum // by their messages
}

// A sum is what a Summary has of one message.
type sum struct {
	level slog.Level
	n     int       // records
	left  []string  // shards whose records were not logged
	fault slog.Attr // error of the first of these; empty: it has none
	timer *time.Timer
}

// NewSummary returns a summary of what is logged to log. few is how many records of one
// message are logged by themselves. Of warnings and errors one is: that of an outage of all
// shards says as much as those of each.
func NewSummary(log *slog.Logger, few int) *Summary {
	return &Summary{log: log, few: few, all: make(map[string]*sum)}
}

// Logger returns the logger for what is to be summed up. Records that name no shard are
// logged as they are.
func (s *Summary) Logger() *slog.Logger { return slog.New(summing{Handler: s.log.Handler(), sums: s}) }

// adds counts a record with an error, which may be empty, and reports whether it is to be
// logged by itself.
func (s *Summary) adds(shard string, fault slog.Attr, r slog.Record) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.all[r.Message]
	if one == nil {
		one = &sum{level: r.Level}
		one.timer = time.AfterFunc(summed, func() { s.end(r.Message) })
		s.all[r.Message] = one
	}
	few := s.few
	if r.Level > slog.LevelInfo {
		few = 1
	}
	if one.n++; one.n > few {
		if len(one.left) == 0 {
			one.fault = fault
		}
		one.left = append(one.left, shard)
	}
	return one.n <= few
}

// end logs what is left of a message.
func (s *Summary) end(message string) {
	s.mu.Lock()
	one := s.all[message]
	delete(s.all, message)
	s.mu.Unlock()
	if one == nil {
		return
	}
	one.timer.Stop()
	if len(one.left) > 0 {
		s.log.LogAttrs(context.Background(), one.level, message, slog.String("shards", strings.Join(one.left, " ")), one.fault) // an empty one is left out
	}
}

// Flush logs what is left of all messages. It is to be called when what logs has ended.
func (s *Summary) Flush() {
	s.mu.Lock()
	var messages []string
	for message := range s.all {
		messages = append(messages, message)
	}
	s.mu.Unlock()
	for _, message := range messages {
		s.end(message)
	}
}

// summing is the handler of a summary's logger.
type summing struct {
	slog.Handler
	shard string // that all records are of; empty: each may name its own
	sums  *Summary
}

// Handle implements slog.Handler.
func (h summing) Handle(ctx context.Context, r slog.Record) error {
	shard, fault := h.shard, slog.Attr{}
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case shardKey:
			shard = a.Value.String()
		case errorKey:
			fault = a
		}
		return true
	})
	if shard != "" && !h.sums.adds(shard, fault, r) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h summing) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.Handler = h.Handler.WithAttrs(attrs)
	for _, a := range attrs {
		if a.Key == shardKey {
			h.shard = a.Value.String()
		}
	}
	return h
}

// WithGroup implements slog.Handler.
func (h summing) WithGroup(name string) slog.Handler {
	h.Handler = h.Handler.WithGroup(name)
	return h
}
