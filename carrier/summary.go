package carrier

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// summed is how long records of one message are summed up, once the first few were logged.
const summed = time.Second

// How many records of one message are logged by themselves: that of an outage of all
// shards says as much as those of each.
const (
	fewFaults = 1
	fewOthers = 8
)

// A summary keeps what happens to all shards at once from flooding the log: the first few
// records of a message are logged, and a second later one that names the shards of the others.
type summary struct {
	log *slog.Logger

	mu  sync.Mutex
	all map[string]*sum // by their messages
}

// A sum is what a summary has of one message.
type sum struct {
	level slog.Level
	n     int      // records
	left  []string // shards whose records were not logged
	timer *time.Timer
}

func newSummary(log *slog.Logger) *summary { return &summary{log: log, all: make(map[string]*sum)} }

// of returns the logger of a shard.
func (s *summary) of(shard string) *slog.Logger {
	return slog.New(ofShard{s.log.With("shard", shard).Handler(), shard, s})
}

// adds counts a record, and reports whether it is to be logged by itself.
func (s *summary) adds(shard string, r slog.Record) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.all[r.Message]
	if one == nil {
		one = &sum{level: r.Level}
		one.timer = time.AfterFunc(summed, func() { s.end(r.Message) })
		s.all[r.Message] = one
	}
	few := fewOthers
	if r.Level > slog.LevelInfo {
		few = fewFaults
	}
	if one.n++; one.n > few {
		one.left = append(one.left, shard)
	}
	return one.n <= few
}

// end logs what is left of a message.
func (s *summary) end(message string) {
	s.mu.Lock()
	one := s.all[message]
	delete(s.all, message)
	s.mu.Unlock()
	if one == nil {
		return
	}
	one.timer.Stop()
	if len(one.left) > 0 {
		s.log.Log(context.Background(), one.level, message, "shards", strings.Join(one.left, " "))
	}
}

// flush logs what is left of all messages.
func (s *summary) flush() {
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

// ofShard is the handler of a shard's logger.
type ofShard struct {
	slog.Handler
	shard string
	sums  *summary
}

// Handle implements slog.Handler.
func (h ofShard) Handle(ctx context.Context, r slog.Record) error {
	if !h.sums.adds(h.shard, r) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h ofShard) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.Handler = h.Handler.WithAttrs(attrs)
	return h
}

// WithGroup implements slog.Handler.
func (h ofShard) WithGroup(name string) slog.Handler {
	h.Handler = h.Handler.WithGroup(name)
	return h
}
